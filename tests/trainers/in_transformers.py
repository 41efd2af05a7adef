"""A tiny model that writes down what it is given, and Hugging Face's ``Trainer`` with loaders of one's own."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

__all__ = ["SetEpoch", "Written", "make_trainer"]


class Written(nn.Module):
    """One weight and one bias. ``trained`` and ``validated`` are the indices of the samples, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)
        self.trained: list[int] = []
        self.validated: list[int] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        written = self.trained if self.training else self.validated
        written += index.tolist()
        guess = self.line(x)
        return {"loss": nn.functional.mse_loss(guess, labels), "logits": guess}


class LoadersGiven(Trainer):
    """What a user writes: loaders in place of datasets, and the methods that would make loaders return them."""

    def get_train_dataloader(self) -> Any:
        return self.train_dataset

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return self.eval_dataset if eval_dataset is None else eval_dataset


class LoadersPrepared(LoadersGiven):
    """They go through Accelerate, as those that ``Trainer`` makes itself do."""

    def get_train_dataloader(self) -> Any:
        return self.accelerator.prepare(super().get_train_dataloader())

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return self.accelerator.prepare(super().get_eval_dataloader(eval_dataset))


class SetEpoch(TrainerCallback):
    """``Trainer`` calls ``set_epoch`` itself, but not in an epoch that it resumes."""

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        others["train_dataloader"].set_epoch(int(state.epoch))


def make_trainer(
    folder: Path, model: nn.Module, train_loader: Any, eval_loader: Any = None, *, prepare: bool = False, **options: Any
) -> Trainer:
    """A ``Trainer`` on the CPU that reports to nobody and saves nothing."""
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        log_level="error",
        logging_strategy="no",
        **{"save_strategy": "no", **options},
    )
    made = LoadersPrepared if prepare else LoadersGiven
    return made(model, arguments, train_dataset=train_loader, eval_dataset=eval_loader)
