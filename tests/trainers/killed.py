"""A training run with checkpoints, which kills itself in the middle of an epoch; and its continuation."""

import json
import os
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["KILLED_AT", "NUM_EPOCHS", "OFFLINE", "PACKAGES", "SAVED_AT", "Run", "Seen", "serve"]

#: No trainer has a reason to ask the network for anything here.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_DATASETS_OFFLINE": "1"}

NUM_EPOCHS = 3
#: Steps of the last checkpoint and of the kill: in the second epoch, whose 6 batches are those after step 6.
SAVED_AT, KILLED_AT = 9, 11
_SAVE_EVERY = 3

#: Called with the indices of a batch when it is trained on.
Seen = Callable[[list[int]], None]


def with_lightning(loader: Any, folder: Path, seen: Seen, *, resumes: bool) -> None:
    """``fit`` with a ``ModelCheckpoint``."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    in_lightning = import_module("tests.trainers.in_lightning")

    class Watching(lightning.Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_index: int) -> None:
            module.trained = [[]]
            seen(batch["index"].tolist())

    saving = ModelCheckpoint(folder, every_n_train_steps=_SAVE_EVERY, save_last=True)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=NUM_EPOCHS,
        # A loader without a sampler has to be told the epoch.
        callbacks=[saving, Watching(), *([] if hasattr(loader, "sampler") else [in_lightning.SetEpoch()])],
    )
    trainer.fit(in_lightning.Written(), loader, ckpt_path="last" if resumes else None)


def with_transformers(loader: Any, folder: Path, seen: Seen, *, resumes: bool) -> None:
    """``train`` with ``save_steps``."""
    in_transformers = import_module("tests.trainers.in_transformers")
    model = in_transformers.Written()
    model.register_forward_pre_hook(lambda _, args, kwargs: seen(kwargs["index"].tolist()), with_kwargs=True)
    trainer = in_transformers.make_trainer(
        folder, model, loader, save_strategy="steps", save_steps=_SAVE_EVERY, num_train_epochs=NUM_EPOCHS
    )
    trainer.train(resume_from_checkpoint=resumes or None)


def with_accelerate(loader: Any, folder: Path, seen: Seen, *, resumes: bool) -> None:
    """A loop of one's own, with ``save_state`` and ``load_state``."""
    import torch

    in_accelerate = import_module("tests.trainers.in_accelerate")
    with in_accelerate.accelerator() as accelerator:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        accelerator.register_for_checkpointing(loader)
        step = 0
        if resumes:
            accelerator.load_state(str(folder))
            step = SAVED_AT
        for epoch in range(step // len(loader), NUM_EPOCHS):
            loader.set_epoch(epoch)
            for batch in loader:
                seen(batch["index"].tolist())
                accelerator.backward(torch.nn.functional.mse_loss(model(batch["x"]), batch["labels"]))
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                if step % _SAVE_EVERY == 0:
                    accelerator.save_state(str(folder))


TRAINERS = {"accelerate": with_accelerate, "lightning": with_lightning, "transformers": with_transformers}
#: What has to be installed for each.
PACKAGES = {
    "accelerate": ("torch", "accelerate"),
    "lightning": ("torch", "lightning"),
    "transformers": ("torch", "transformers", "accelerate"),
}


@dataclass(frozen=True)
class Run:
    """One run: with which loader, and where its checkpoints and its ``batches`` are."""

    kind: str
    folder: Path
    resumes: bool

    def batches(self) -> list[list[int]]:
        """The indices of each batch so far."""
        return [json.loads(line) for line in (self.folder / "batches").read_text().splitlines()]


def serve(connection: "Connection", trainer: str) -> None:
    """In a process of its own: import the trainer, which takes seconds, and fork for each run that is asked for.

    Answers with the exit code of the run; the first answer says that it is ready.
    """
    os.environ.update(OFFLINE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these packages and those that they import do on import is theirs
        import_module(f"tests.trainers.in_{trainer}")
        if trainer == "accelerate":
            import_module("torch._dynamo")  # which it does in a run otherwise; it takes a second
        made = import_module("tests.trainers.loading").LOADERS
    connection.send(0)
    while run := connection.recv():
        pid = os.fork()
        if pid == 0:
            connection.close()
            _train(trainer, made[run.kind], run)
            return
        connection.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _train(trainer: str, made: Callable[[], Any], run: Run) -> None:
    with (run.folder / "stderr").open("ab") as said, (run.folder / "batches").open("wb", buffering=0) as batches:
        os.dup2(said.fileno(), 2)
        num_seen = 0

        def seen(indices: list[int]) -> None:
            nonlocal num_seen
            batches.write(json.dumps(indices).encode() + b"\n")
            num_seen += 1
            if num_seen == KILLED_AT and not run.resumes:
                os.kill(os.getpid(), signal.SIGKILL)

        TRAINERS[trainer](made(), run.folder, seen, resumes=run.resumes)
