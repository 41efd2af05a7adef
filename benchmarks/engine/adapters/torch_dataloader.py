"""torch's ``DataLoader`` over a dataset whose ``__getitem__`` does the no-op work.

Without aggregation ``batch_size`` is ``None``: one item at a time. Stages are calls in ``__getitem__``, because the
loader has no other place for work. Concurrency is the number of worker processes, which the adapter fixes for all
cases. Batches are plain lists, so that the conversion to tensors is not measured.
"""

from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from benchmarks.engine._cases import Case

from ._adapter import Reader, Run, noop

__all__ = ["TorchDataLoader"]


class _Numbers:
    """A map-style dataset: item i is i, after as many no-op calls as the case has stages."""

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


class TorchDataLoader:
    """``DataLoader`` with a fixed number of worker processes; 0 does the work in the consumer's thread."""

    def __init__(self, num_workers: int) -> None:
        self.name = f"dataloader-{num_workers}"
        self._num_workers = num_workers

    def available(self) -> bool:
        return find_spec("torch") is not None

    def versions(self) -> dict[str, str]:
        return {"torch": version("torch")}

    def supports(self, case: Case) -> bool:
        return case.kind == "sync"

    def make(self, case: Case) -> Run:
        from torch.utils.data import DataLoader

        collate = list if case.batch_size is not None else None

        def run(n: int, read: Reader) -> Any:
            dataset: Any = _Numbers(n, case.num_stages)
            loader: Any = DataLoader(
                dataset, batch_size=case.batch_size, num_workers=self._num_workers, collate_fn=collate
            )
            return read(loader)

        return run
