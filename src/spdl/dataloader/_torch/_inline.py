"""``InlineRun``: no workers. Every batch is loaded in the consumer's thread, when the consumer asks for it."""

from collections.abc import Callable, Iterator
from typing import Any

from ._fetching import IterableFetcher, draw_base_seed, fetch
from ._plan import Plan

__all__ = ["InlineRun"]


class InlineRun:
    """See ``Run``."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def iterate(self) -> Iterator[Any]:
        plan = self._plan
        if plan.is_iterable:
            draw_base_seed(plan.generator)
            fetcher = IterableFetcher(plan.dataset, plan.batch_size, plan.drop_last, plan.collate_fn)
            return _Batches(fetcher.fetch, plan.pin)
        assert plan.indices is not None
        indices = iter(plan.indices)
        draw_base_seed(plan.generator)
        return _Batches(
            lambda: fetch(plan.dataset, next(indices), plan.is_batched, plan.collate_fn),
            plan.pin,
        )

    def close(self) -> None:
        pass


class _Batches(Iterator[Any]):
    """Iterator of an epoch. Not a generator, which would end with the first exception of the dataset."""

    __slots__ = ("_load", "_pin")

    def __init__(self, load: Callable[[], Any], pin: Callable[[Any], Any] | None) -> None:
        self._load = load
        self._pin = pin

    def __next__(self) -> Any:
        batch = self._load()
        return batch if self._pin is None else self._pin(batch)
