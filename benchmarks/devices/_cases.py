"""The batches, the peers that move them, and the step on the device."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.required import Ratio

__all__ = ["CONTEST", "find_missing"]

OURS = "prefetch"
NUM_BATCHES = 16

#: Title, shape of each tensor of a batch, number of tensors.
BATCHES = {
    "images": ("256 images, 224x224, uint8, one tensor", (256, 3, 224, 224), 1),
    "dicts": ("a dict of 48 tensors of 64 KB", (65_536,), 48),
}
#: Title, and the number of products of 4096x4096 matrices (float32) that a step computes after reading its batch.
STEPS = {"idle": ("no step", 0), "busy": ("a step of about the same length", 1)}


def find_missing() -> str | None:
    """A description of what is missing; ``None`` if there is a CUDA device."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return None if torch.cuda.is_available() else "torch finds no CUDA device"


def _alike(ours: Outputs, theirs: Outputs) -> str | None:
    """Sums of bytes are exact."""
    return None if np.array_equal(ours["sums"], theirs["sums"]) else "the sums of its batches differ"


def make_cases(folder: Path, quick: bool) -> Sequence[Case]:
    return [
        Case(
            f"{batch}_{step}",
            f"{batch_title}; {step_title}",
            {"shape": list(shape), "num_tensors": num_tensors, "num_products": num_products, "num": NUM_BATCHES},
            per=NUM_BATCHES,
            differ=_alike,
        )
        for batch, (batch_title, shape, num_tensors) in BATCHES.items()
        for step, (step_title, num_products) in STEPS.items()
    ]


CONTEST = Contest(
    name="devices",
    question="What does it cost to have each batch on the GPU when a training step wants it?",
    ours=OURS,
    unit="a batch",
    peers=[
        Peer(OURS, "benchmarks.devices.adapters.prefetch"),
        Peer("h2d", "benchmarks.devices.adapters.transfer"),
        Peer("to", "benchmarks.devices.adapters.plain_to"),
        Peer("pin-to", "benchmarks.devices.adapters.pin_then_to"),
    ],
    make_cases=make_cases,
    required=[
        Ratio(f"{batch}_busy: {peer} over ours", (f"{batch}_busy", peer), (f"{batch}_busy", OURS), 1.0)
        for batch in BATCHES
        for peer in ("to", "pin-to")
    ],
)
