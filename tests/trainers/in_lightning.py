"""A tiny ``LightningModule`` that writes down what it is given, and a ``Trainer`` that writes nothing else."""

from pathlib import Path
from typing import Any

import lightning
import torch
from torch import nn

__all__ = ["Failing", "SetEpoch", "Validated", "Written", "make_trainer"]


class Written(lightning.LightningModule):
    """One weight and one bias. ``trained`` are the indices of the samples, a list for each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)
        self.trained: list[list[int]] = []

    def on_train_epoch_start(self) -> None:
        self.trained.append([])

    def training_step(self, batch: dict[str, torch.Tensor], batch_index: int) -> torch.Tensor:
        self.trained[-1] += batch["index"].tolist()
        return nn.functional.mse_loss(self.line(batch["x"]), batch["labels"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Validated(Written):
    """``validated`` are the indices of the samples it was validated with, a list for each time."""

    def __init__(self) -> None:
        super().__init__()
        self.validated: list[list[int]] = []

    def on_validation_epoch_start(self) -> None:
        self.validated.append([])

    def validation_step(self, batch: dict[str, torch.Tensor], batch_index: int) -> None:
        self.validated[-1] += batch["index"].tolist()


class Failing(Written):
    """Fails at its second step."""

    def training_step(self, batch: dict[str, torch.Tensor], batch_index: int) -> torch.Tensor:
        loss = super().training_step(batch, batch_index)
        return loss if batch_index == 0 else loss * (1 // 0)


class SetEpoch(lightning.Callback):
    """Lightning looks for ``set_epoch`` at samplers only: this tells a loader that has none which epoch begins."""

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        trainer.train_dataloader.set_epoch(trainer.current_epoch)


def make_trainer(folder: Path, **options: Any) -> Any:
    """A ``Trainer`` on the CPU without files, log lines and progress bar."""
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"num_sanity_val_steps": 0, **options},
    )
