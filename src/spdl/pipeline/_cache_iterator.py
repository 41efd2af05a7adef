"""``cache_iterator``: stops reading its source after a while and repeats cached items."""

from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import TypeVar

from spdl._numbers import as_int

T = TypeVar("T")


def cache_iterator(
    src: Iterable[T],
    num_caches: int,
    *,
    return_caches_after: int | None = None,
    stop_after: int | None = None,
    delete_src: bool = True,
) -> Iterator[T]:
    """Iterate over ``src`` for a while, then repeat its first items, to measure the speed of the consumer alone.

    .. code-block:: python

        for batch in cache_iterator(loader, num_caches=2, return_caches_after=4, stop_after=100):
            train(batch)  # after 4 batches, loading takes no time

    Args:
        src: Iterable to read, item by item and no further than needed.
        num_caches: Number of first items to cache.
        return_caches_after: Number of items to read from ``src`` before the cached items are repeated; ``None``:
            ``num_caches``. If ``src`` has fewer, repeating starts when it ends.
        stop_after: Total number of items; ``None``: infinite, unless ``src`` is empty.
        delete_src: Whether to drop the reference to ``src`` when it is no longer read, so that it can release its
            resources. Otherwise it stays alive as long as this iterator.

    Raises:
        ValueError: On the first ``next``: ``num_caches`` is not positive, ``return_caches_after`` or ``stop_after`` is
            less than ``num_caches``, or ``stop_after`` is less than ``return_caches_after``.
    """
    num_from_src = num_caches if return_caches_after is None else return_caches_after
    _check(num_caches, num_from_src, stop_after)

    kept: list[T] = []
    num_items = 0
    iterator = iter(src)
    for item in islice(iterator, num_from_src):
        if len(kept) < num_caches:
            kept.append(item)
        num_items += 1
        yield item
    if delete_src:
        # The loop variable too: it may be a view of memory that the source owns.
        del src, iterator
        item = None  # type: ignore[assignment]
    if kept:
        yield from islice(cycle(kept), None if stop_after is None else stop_after - num_items)


def _check(num_caches: int, return_caches_after: int, stop_after: int | None) -> None:
    as_int("num_caches", num_caches, 1)
    if as_int("return_caches_after", return_caches_after) < num_caches:
        raise ValueError(
            f"return_caches_after must be >= num_caches, got {return_caches_after} with num_caches={num_caches}"
        )
    if stop_after is None:
        return
    if as_int("stop_after", stop_after) < num_caches:
        raise ValueError(f"stop_after must be >= num_caches, got {stop_after} with num_caches={num_caches}")
    if stop_after < return_caches_after:
        raise ValueError(
            f"stop_after must be >= return_caches_after, got {stop_after} with "
            f"return_caches_after={return_caches_after}"
        )
