"""``CacheDataLoader``: repeat cached batches, to measure the speed of a consumer without the cost of loading."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

from spdl.pipeline import cache_iterator
from spdl.resume._document import decode, encode
from spdl.resume._values import ResumeError

T = TypeVar("T")


class CacheDataLoader(Generic[T]):
    """Load some batches of a loader and then repeat the first ones instead of loading more.

    .. code-block:: python

        loader = DataLoader(paths, preprocessor=load, batch_size=4)
        cached = CacheDataLoader(loader, num_caches=1, return_caches_after=2, stop_after=100)
        assert len(list(cached)) == 100  # two are loaded

    Each iteration is a :func:`~spdl.pipeline.cache_iterator` over the loader. All other attributes, including the
    length and ``set_epoch``, are those of the loader.

    If the loader has ``state_dict()`` and ``load_state_dict()``, so does this one. Its state is the state of the loader
    before the iteration, and the number of batches returned since. Cached batches are not saved; resuming loads them
    again.

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
        self._newest: _Place | None = None
        self._loaded: _Place | None = None  # where the next iteration begins

    def __iter__(self) -> Iterator[T]:
        batches = cache_iterator(
            self.dl, self.num_caches, return_caches_after=self.return_caches_after, stop_after=self.stop_after
        )
        if not hasattr(self.dl, "state_dict"):
            return batches
        place, self._loaded = self._loaded, None
        if place is None:
            place = _Place(self.dl.state_dict())
        self._newest = place
        return _counted(batches, place)

    def __len__(self) -> int:
        """Length of the loader; ``stop_after`` does not change it.

        Raises:
            TypeError: The loader has no length.
        """
        return len(self.dl)  # type: ignore[arg-type] # it may have none: that is the TypeError

    def __bool__(self) -> bool:
        return True  # without this, bool() would need the length, which the loader may not have

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that are missing here; during unpickling and copying that is all of them.
        if name in ("state_dict", "load_state_dict"):
            getattr(self.dl, name)  # raises the error of the loader
            return self._state_dict if name == "state_dict" else self._load_state_dict
        if name == "dl" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dl, name)

    def _state_dict(self) -> dict[str, str]:
        place = self._loaded or self._newest
        if place is None or place.has_ended:
            place = _Place(self.dl.state_dict())  # type: ignore[attr-defined] # as ``__getattr__`` has found
        return encode({"kind": "cache", "taken": place.num_taken, "loader": place.start})

    def _load_state_dict(self, state: Mapping[str, Any]) -> None:
        document = decode(state, "the cached loader")
        if document["kind"] != "cache":
            raise ResumeError(f"cannot resume: a state of a CacheDataLoader is needed, got one of a {document['kind']}")
        num_taken, start = document.get("taken"), document.get("loader")
        if type(num_taken) is not int or num_taken < 0:
            raise ResumeError(f"cannot read the state of the cached loader: it has {num_taken!r} as number of batches")
        self.dl.load_state_dict(start)  # type: ignore[attr-defined] # as ``__getattr__`` has found
        self._loaded = _Place(start, num_taken)


class _Place:
    """The position of an iteration."""

    def __init__(self, start: Any, num_taken: int = 0) -> None:
        self.start = start  # state of the loader before the iteration
        self.num_taken = num_taken
        self.has_ended = False


def _counted(batches: Iterator[T], place: _Place) -> Iterator[T]:
    for _ in islice(batches, place.num_taken):
        pass
    for batch in batches:
        place.num_taken += 1
        yield batch
    place.has_ended = True
