"""``CacheDataLoader``: repeats cached batches, to measure the speed of a consumer without the cost of loading."""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from spdl.pipeline import cache_iterator

__all__ = ["CacheDataLoader"]

T = TypeVar("T")


class CacheDataLoader(Generic[T]):
    """A loader that loads some batches and then repeats the first ones instead of loading more.

    Each iteration is a :func:`~spdl.pipeline.cache_iterator` over the loader. All other attributes, including the
    length and ``set_epoch``, are those of the loader.

    Args:
        dl: The loader; any iterable.
        num_caches: Number of batches to cache, from the first one.
        return_caches_after: Number of batches taken from ``dl`` before the cached ones are repeated.
        stop_after: Number of batches in an iteration; ``None``: it never ends, unless ``dl`` is empty.

    Raises:
        ValueError: On the first ``next``: the numbers are inconsistent.

    Attributes:
        dl: The loader. ``num_caches``, ``return_caches_after`` and ``stop_after`` are attributes too.
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
        """The length of the loader; ``stop_after`` does not change it.

        Raises:
            TypeError: The loader has no length.
        """
        return len(self.dl)  # type: ignore[arg-type] # it may have none: that is the TypeError

    def __bool__(self) -> bool:
        return True  # without this, bool() would need the length, which the loader may not have

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that are missing here; during unpickling and copying that is all of them.
        if name == "dl" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dl, name)
