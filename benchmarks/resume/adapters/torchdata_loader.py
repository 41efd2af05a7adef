"""torchdata's ``StatefulDataLoader``, with two worker processes; for a first batch, with none."""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from torchdata.stateful_dataloader import StatefulDataLoader

from benchmarks.engine._adapter import Settings

from ._steps import Hashes, collate

_BATCH = 32


def versions() -> dict[str, str]:
    return {package: version(package) for package in ("torchdata", "torch")}


def loader(data: Mapping[str, Any]) -> Any:
    dataset: Any = Hashes(data["batch_size"] * data["num_batches"])
    return StatefulDataLoader(dataset, data["batch_size"], shuffle=True, num_workers=2, collate_fn=collate)


def starts(data: Mapping[str, Any], settings: Settings) -> Callable[[], tuple[list[int], Callable[[], object]]] | None:
    """Makes a loader and reads its first batch, at the beginning or at a position.

    A permutation of ``length`` is made, so the largest length is left out.
    """
    if data["length"] > 10_000_000:
        return None

    def make() -> Any:
        dataset: Any = range(data["length"])
        return StatefulDataLoader(dataset, _BATCH, shuffle=True, collate_fn=collate)

    state = None
    if settings["is_resuming"]:
        first = make()
        for number, _ in enumerate(first, start=1):
            if number == data["position"] // _BATCH:
                break
        state = first.state_dict()

    def start() -> tuple[list[int], Callable[[], object]]:
        made = make()
        if state is not None:
            made.load_state_dict(state)
        return next(iter(made)), lambda: None

    return start
