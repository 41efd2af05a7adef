"""Our loaders in Lightning's ``Trainer``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .sampling import BATCH_SIZE, NUM_BATCHES, order

pytestmark = [
    pytest.mark.slow,  # the import of Lightning takes seconds, once
    # Lightning asks torch's tree for leaves in a way that torch has deprecated since.
    pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning"),
]

Make = Callable[..., Any]


def test_each_epoch_is_that_of_the_sampler(make_loader: Make, in_lightning: Any, tmp_path: Path) -> None:
    """Every sample once an epoch, in the order that the sampler has for it; ``len(loader)`` steps; nothing written."""
    loader = make_loader()
    model = in_lightning.Written()
    trainer = in_lightning.make_trainer(tmp_path, max_epochs=3, callbacks=[in_lightning.SetEpoch()])
    trainer.fit(model, loader)
    assert model.trained == [order(epoch) for epoch in range(3)]
    assert len(loader) == trainer.num_training_batches == NUM_BATCHES
    assert trainer.global_step == 3 * NUM_BATCHES
    assert not list(tmp_path.iterdir())


def test_sampler_is_found(make_thread_loader: Make, in_lightning: Any, tmp_path: Path) -> None:
    """A loader that has a ``sampler``, as torch's has, needs no callback: Lightning sets the sampler's epoch."""
    model = in_lightning.Written()
    in_lightning.make_trainer(tmp_path, max_epochs=2).fit(model, make_thread_loader())
    assert model.trained == [order(0), order(1)]


def test_validation_after_each_epoch(make_loader: Make, in_lightning: Any, tmp_path: Path) -> None:
    """The loader for validation is gone through whole, before the training and after each of its epochs."""
    model = in_lightning.Validated()
    trainer = in_lightning.make_trainer(tmp_path, max_epochs=2, num_sanity_val_steps=1)
    trainer.fit(model, make_loader(), make_loader(10))
    assert [sorted(epoch) for epoch in model.validated] == [sorted(order(0, 10)[:BATCH_SIZE])] + [list(range(10))] * 2
    trainer.validate(model, make_loader(5), verbose=False)
    assert sorted(model.validated[-1]) == list(range(5))


def test_validation_within_an_epoch(make_loader: Make, in_lightning: Any, tmp_path: Path) -> None:
    """Validation while a training epoch is under way: two loaders are iterated at a time."""
    model = in_lightning.Validated()
    in_lightning.make_trainer(tmp_path, max_epochs=1, val_check_interval=2).fit(model, make_loader(), make_loader(10))
    assert model.trained == [order(0)]
    assert [sorted(epoch) for epoch in model.validated] == [list(range(10))] * 3


def test_max_steps_ends_within_an_epoch(make_loader: Make, in_lightning: Any, tmp_path: Path) -> None:
    """The training stops in the middle of the second epoch, and nothing of the loader is left running."""
    model = in_lightning.Written()
    trainer = in_lightning.make_trainer(tmp_path, max_steps=NUM_BATCHES + 2, callbacks=[in_lightning.SetEpoch()])
    trainer.fit(model, make_loader())
    assert trainer.global_step == NUM_BATCHES + 2
    assert model.trained == [order(0), order(1)[: 2 * BATCH_SIZE]]


@pytest.mark.parametrize(("limit", "num_batches"), [(2, 2), (0.5, NUM_BATCHES // 2)])
def test_limit_of_batches(make_loader: Make, in_lightning: Any, tmp_path: Path, limit: float, num_batches: int) -> None:
    """``limit_train_batches`` cuts each epoch, as a number of batches or as a share of ``len(loader)``."""
    model = in_lightning.Validated()
    trainer = in_lightning.make_trainer(
        tmp_path, max_epochs=2, limit_train_batches=limit, limit_val_batches=1, callbacks=[in_lightning.SetEpoch()]
    )
    trainer.fit(model, make_loader(), make_loader(10))
    assert model.trained == [order(epoch)[: num_batches * BATCH_SIZE] for epoch in range(2)]
    assert [len(epoch) for epoch in model.validated] == [BATCH_SIZE] * 2


def test_failure_of_the_model_leaves_nothing(make_loader: Make, in_lightning: Any, tmp_path: Path) -> None:
    """A training step that raises ends the loader too; the exception is the one that the model raised."""
    model = in_lightning.Failing()
    with pytest.raises(ZeroDivisionError):
        in_lightning.make_trainer(tmp_path, max_epochs=1).fit(model, make_loader())
    assert model.trained == [order(0)[: 2 * BATCH_SIZE]]


def test_failure_of_the_dataset_is_that_of_the_training(damaged_loader: Any, in_lightning: Any, tmp_path: Path) -> None:
    """``fit`` raises what the dataset raised, after the batches before it."""
    model = in_lightning.Written()
    with pytest.raises(OSError, match="sample 13 is damaged"):
        in_lightning.make_trainer(tmp_path, max_epochs=1).fit(model, damaged_loader)
    assert model.trained == [list(range(3 * BATCH_SIZE))]


def test_loader_without_length(endless_loader: Any, in_lightning: Any, tmp_path: Path) -> None:
    """A stream that never ends is trained on for ``max_steps``, and as many batches an epoch as one says."""
    model = in_lightning.Written()
    in_lightning.make_trainer(tmp_path, max_steps=5).fit(model, endless_loader)
    assert model.trained == [list(range(5 * BATCH_SIZE))]
    model = in_lightning.Written()
    in_lightning.make_trainer(tmp_path, max_epochs=2, limit_train_batches=3).fit(model, endless_loader)
    assert model.trained == [list(range(3 * BATCH_SIZE))] * 2


def test_persistent_processes(make_process_loader: Make, in_lightning: Any, tmp_path: Path) -> None:
    """Two epochs and a part of the third by the same worker processes, which are gone with the loader."""
    model = in_lightning.Written()
    in_lightning.make_trainer(tmp_path, max_steps=2 * NUM_BATCHES + 1).fit(model, make_process_loader())
    assert model.trained == [order(0), order(1), order(2)[:BATCH_SIZE]]
