"""torch's ``DataLoader`` over a dataset whose ``__getitem__`` does the no-op work.

Without aggregation ``batch_size`` is ``None``: one item at a time. Stages are calls in ``__getitem__``, because the
loader has no other place for work. Concurrency is the number of worker processes, a setting of the peer that is the
same for all cases; 0 does the work in the consumer's thread. Batches are plain lists, so that the conversion to tensors
is not measured.
"""

from importlib.metadata import version
from typing import Any

from torch.utils.data import DataLoader

from benchmarks.engine._adapter import Reader, Run, Settings, noop
from benchmarks.engine._shapes import Shape


class _Numbers:
    """A map-style dataset: item i is i, after as many no-op calls as the shape has stages."""

    def __init__(self, n: int, num_stages: int) -> None:
        self._n = n
        self._num_stages = num_stages

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: int) -> Any:
        item: Any = index
        for _ in range(self._num_stages):
            item = noop(item)
        return item


def versions() -> dict[str, str]:
    return {"torch": version("torch")}


def make(shape: Shape, settings: Settings) -> Run | None:
    if shape.kind != "sync":
        return None
    collate = list if shape.batch_size is not None else None

    def run(n: int, read: Reader) -> Any:
        dataset: Any = _Numbers(n, shape.num_stages)
        loader: Any = DataLoader(
            dataset, batch_size=shape.batch_size, num_workers=settings["num_workers"], collate_fn=collate
        )
        return read(loader)

    return run
