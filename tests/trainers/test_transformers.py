"""Our loaders in Hugging Face's ``Trainer``: those that ``get_train_dataloader`` and ``get_eval_dataloader`` return."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .sampling import BATCH_SIZE, NUM_BATCHES, NUM_SAMPLES, order

pytestmark = pytest.mark.slow  # the import of transformers takes seconds, once

Make = Callable[..., Any]


@pytest.mark.parametrize("prepare", [False, True], ids=["given", "prepared"])
def test_each_epoch_is_that_of_the_sampler(
    make_loader: Make, in_transformers: Any, tmp_path: Path, prepare: bool
) -> None:
    """Every sample once an epoch, in the order that the sampler has for it; ``len(loader)`` steps; nothing written."""
    model = in_transformers.Written()
    trainer = in_transformers.make_trainer(tmp_path, model, make_loader(), prepare=prepare, num_train_epochs=3)
    assert trainer.train().global_step == 3 * NUM_BATCHES
    assert model.trained == order(0) + order(1) + order(2)
    assert trainer.state.max_steps == 3 * NUM_BATCHES
    assert trainer.state.epoch == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("prepare", [False, True], ids=["given", "prepared"])
def test_evaluation(make_loader: Make, in_transformers: Any, tmp_path: Path, prepare: bool) -> None:
    """The loader for evaluation is gone through whole after each epoch, and by ``evaluate``; the losses are means."""
    model = in_transformers.Written()
    trainer = in_transformers.make_trainer(
        tmp_path, model, make_loader(), make_loader(10), prepare=prepare, num_train_epochs=2, eval_strategy="epoch"
    )
    trainer.train()
    assert model.trained == order(0) + order(1)
    assert [sorted(model.validated[start : start + 10]) for start in (0, 10)] == [list(range(10))] * 2
    metrics = trainer.evaluate()
    assert len(model.validated) == 30
    assert metrics["eval_loss"] >= 0


def test_max_steps_ends_within_an_epoch(make_loader: Make, in_transformers: Any, tmp_path: Path) -> None:
    """The training stops in the middle of the second epoch, and nothing of the loader is left running."""
    model = in_transformers.Written()
    trainer = in_transformers.make_trainer(tmp_path, model, make_loader(), max_steps=NUM_BATCHES + 2)
    assert trainer.train().global_step == NUM_BATCHES + 2
    assert model.trained == order(0) + order(1)[: 2 * BATCH_SIZE]


def test_gradients_accumulate(make_loader: Make, in_transformers: Any, tmp_path: Path) -> None:
    """Several batches for a step: the number of steps follows from ``len(loader)``, the last one takes what is left."""
    model = in_transformers.Written()
    trainer = in_transformers.make_trainer(
        tmp_path, model, make_loader(), num_train_epochs=2, gradient_accumulation_steps=4
    )
    assert trainer.train().global_step == 2 * 2
    assert model.trained == order(0) + order(1)


def test_number_of_examples_is_that_of_the_dataset(make_loader: Make, in_transformers: Any, tmp_path: Path) -> None:
    """``Trainer`` takes it from the loader's dataset; where there is none it estimates from the number of batches."""
    loader = make_loader()
    trainer = in_transformers.make_trainer(
        tmp_path, in_transformers.Written(), loader, per_device_train_batch_size=BATCH_SIZE
    )
    expected = NUM_SAMPLES if hasattr(loader, "dataset") else NUM_BATCHES * BATCH_SIZE
    assert trainer.num_examples(loader) == expected


def test_failure_of_the_model_leaves_nothing(make_loader: Make, in_transformers: Any, tmp_path: Path) -> None:
    """A training step that raises ends the loader too; the exception is the one that the model raised."""
    model = in_transformers.Written()
    model.line.register_forward_hook(lambda *_: 1 // 0 if len(model.trained) > BATCH_SIZE else None)
    with pytest.raises(ZeroDivisionError):
        in_transformers.make_trainer(tmp_path, model, make_loader(), num_train_epochs=1).train()
    assert model.trained == order(0)[: 2 * BATCH_SIZE]


def test_failure_of_the_dataset_is_that_of_the_training(
    damaged_loader: Any, in_transformers: Any, tmp_path: Path
) -> None:
    """``train`` raises what the dataset raised, after the batches before it."""
    model = in_transformers.Written()
    with pytest.raises(OSError, match="sample 13 is damaged"):
        in_transformers.make_trainer(tmp_path, model, damaged_loader, num_train_epochs=1).train()
    assert model.trained == list(range(3 * BATCH_SIZE))


def test_loader_without_length(endless_loader: Any, in_transformers: Any, tmp_path: Path) -> None:
    """A stream that never ends is trained on for ``max_steps``; without them, ``Trainer`` asks for them."""
    model = in_transformers.Written()
    in_transformers.make_trainer(tmp_path, model, endless_loader, max_steps=5).train()
    assert model.trained == list(range(5 * BATCH_SIZE))
    with pytest.raises(ValueError, match="max_steps"):
        in_transformers.make_trainer(tmp_path, model, endless_loader, num_train_epochs=1).train()


def test_persistent_processes(make_process_loader: Make, in_transformers: Any, tmp_path: Path) -> None:
    """Two epochs and a part of the third by the same worker processes, which are gone with the loader."""
    model = in_transformers.Written()
    in_transformers.make_trainer(tmp_path, model, make_process_loader(), max_steps=2 * NUM_BATCHES + 1).train()
    assert model.trained == order(0) + order(1) + order(2)[:BATCH_SIZE]


@pytest.mark.allow_leaks(reason="the rest of the epoch is loaded by torch's loader, whose worker processes are its own")
def test_resumed_within_an_epoch(make_thread_loader: Make, in_transformers: Any, tmp_path: Path) -> None:
    """What was trained before the checkpoint is skipped; the rest of that epoch comes, in its order, and the next."""
    num_steps = NUM_BATCHES + 2
    options = {"save_strategy": "steps", "save_steps": num_steps}
    model = in_transformers.Written()
    in_transformers.make_trainer(tmp_path, model, make_thread_loader(), max_steps=num_steps, **options).train()
    assert model.trained == order(0) + order(1)[: 2 * BATCH_SIZE]
    model = in_transformers.Written()
    trainer = in_transformers.make_trainer(tmp_path, model, make_thread_loader(), max_steps=3 * NUM_BATCHES, **options)
    trainer.add_callback(in_transformers.SetEpoch())
    trainer.train(resume_from_checkpoint=True)
    assert model.trained == order(1)[2 * BATCH_SIZE :] + order(2)
