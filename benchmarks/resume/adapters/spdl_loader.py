"""SPDL's drop-in for torch's loader."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from benchmarks._contest.ours import spdl_version
from spdl.dataloader import get_pytorch_dataloader

from ._steps import Hashes, collate


def versions() -> dict[str, str]:
    return {"spdl": spdl_version(), "torch": version("torch")}


def loader(data: Mapping[str, Any]) -> Any:
    return get_pytorch_dataloader(
        Hashes(data["batch_size"] * data["num_batches"]),  # type: ignore[arg-type]  # torch asks for no base class
        data["batch_size"],
        shuffle=True,
        num_workers=2,
        collate_fn=collate,
        workers=data["workers"],
    )
