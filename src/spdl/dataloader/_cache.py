"""``CacheDataLoader``: how fast a consumer would be if loading cost nothing."""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from spdl.pipeline import cache_iterator

__all__ = ["CacheDataLoader"]

T = TypeVar("T")


class CacheDataLoader(Generic[T]):
    """A loader that, after some batches, repeats the first ones in place of loading more.

    Each iteration is a :func:`~spdl.pipeline.cache_iterator` over the loader. What else one asks of it, its length
    and ``set_epoch`` included, is asked of the loader.

    Args:
        dl: The loader; any iterable.
        num_caches: How many of the first batches are kept.
        return_caches_after: How many batches come from ``dl`` before the kept ones are repeated.
        stop_after: How many batches an iteration has; ``None``: it never ends, unless ``dl`` is empty.

    Raises:
        ValueError: On the first ``next``: the numbers do not fit together.

    Attributes:
        dl: As given; likewise ``num_caches``, ``return_caches_after``, ``stop_after``.
    """

    def __init__(
        self, dl: Iterable[T], num_caches: int, return_caches_after: int, stop_after: int | None = None
    ) -> None:
        self.dl = dl
        self.num_caches = num_caches
        self.return_caches_after = return_caches_after
        self.stop_after = stop_after

    def __iter__(self) -> Iterator[T]:
        return cache_iterator(
            self.dl, self.num_caches, return_caches_after=self.return_caches_after, stop_after=self.stop_after
        )

    def __len__(self) -> int:
        """That of the loader, whatever ``stop_after`` says.

        Raises:
            TypeError: It has none.
        """
        return len(self.dl)  # type: ignore[arg-type] # it may have none: that is the TypeError

    def __bool__(self) -> bool:
        return True  # not a question of length, which it may not have

    def __getattr__(self, name: str) -> Any:
        # Only for what is not here. While it is unpickled or copied, nothing is.
        if name == "dl" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dl, name)
