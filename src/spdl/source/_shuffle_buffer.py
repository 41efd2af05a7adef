"""``ShuffleBuffer``: shuffle a source that cannot be indexed, through a buffer of limited size."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from spdl._numbers import as_int
from spdl.resume._values import ResumeError, is_stateful

from ._sampler import Seeded
from ._states import go_on, make_state, read_count, read_integers, read_state

T = TypeVar("T")


class ShuffleBuffer(Seeded, Generic[T]):
    """The items of a source, shuffled through a buffer: each new item replaces one drawn at random, which is yielded.

    .. code-block:: python

        mixed = ShuffleBuffer(range(100), 10, seed=0)
        assert sorted(mixed) == list(range(100))

    An item is yielded at most ``size`` positions earlier than in the source, and stays in the buffer for ``size`` draws
    on average. So items that are far apart in the source stay far apart. If items can be indexed, use
    ``DistributedKeyedSampler`` or ``ShardOrder`` instead: they shuffle all items in constant memory.

    The order is a function of seed and epoch, and resumes exactly from a state. The items that were in the buffer are
    then read from the source again, from a state that the source had before the oldest of them. If the source has no
    ``state_dict``, it is read from its start.

    Args:
        source: Any iterable. Its ``set_epoch``, ``rank`` and ``world_size`` are passed on.
        size: Number of items in the buffer.
        seed: Seed of the run: any integer.
        epoch: Epoch of the first iterations: any integer.

    Raises:
        TypeError: A number is not an integer.
        ValueError: ``size`` is not positive.
    """

    def __init__(self, source: Iterable[T], size: int, *, seed: int = 0, epoch: int = 0) -> None:
        self.source = source
        self._size = as_int("size", size, 1)
        self._begin_at(seed, epoch)
        self._newest: _Iteration[T] | None = None
        #: The state that the next iteration resumes from.
        self._resumed: Mapping[str, Any] | None = None

    @property
    def size(self) -> int:
        """The number of items in the buffer."""
        return self._size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the iterations that begin from now on, also in the source if it has ``set_epoch``.

        If a state was loaded, the next iteration resumes from it only if this is the epoch in the state.

        Raises:
            TypeError: ``epoch`` is not an integer.
        """
        super().set_epoch(epoch)
        self._pass_on_epoch()

    def _pass_on_epoch(self) -> None:
        if callable(getattr(self.source, "set_epoch", None)):
            self.source.set_epoch(self._epoch)  # type: ignore[attr-defined]  # just checked

    def _forget(self) -> None:
        self._newest = self._resumed = None

    def __getattr__(self, name: str) -> Any:
        # Rank and world size are those of the source; a source without ranks does not have these attributes.
        if name in ("rank", "world_size"):
            return getattr(self.source, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __iter__(self) -> Iterator[T]:
        newest = _Iteration(self.source, self._size, f"{self._seed},{self._epoch}")
        if self._resumed is not None:
            state, self._resumed = self._resumed, None
            newest.go_on(state)
        self._newest = newest
        return newest.items()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the newest iteration: numbers, and a state of the source. It contains no items."""
        if self._newest is not None:
            found = self._newest.state()
        elif self._resumed is not None:
            found = {key: self._resumed[key] for key in ("read", "given", "position", "source")}
        else:
            found = {"read": 0, "given": 0, "position": 0, "source": None}
        return make_state("ShuffleBuffer", size=self._size, seed=self._seed, epoch=self._epoch, **found)

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Make the next iteration resume from a state; later iterations begin at the start.

        Raises:
            ResumeError: It is not the state of a ``ShuffleBuffer`` of the same size. While iterating: the source has
                fewer items, or cannot load its part of the state.
        """
        checked = read_state(state, "ShuffleBuffer", size=self._size)
        seed, epoch = read_integers(checked, "seed", "epoch")
        for name in ("read", "given", "position"):
            read_count(checked, name)
        self._seed, self._epoch = seed, epoch
        self._newest, self._resumed = None, checked
        self._pass_on_epoch()

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins at the start or at a loaded state, even if it is made during an iteration.
        return {**self.__dict__, "_newest": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r}, {self._size}, seed={self._seed}, epoch={self._epoch})"


class _Iteration(Generic[T]):
    """One iteration. Everything except the items is a function of the key and the numbers of items read and yielded."""

    def __init__(self, source: Iterable[T], size: int, key: str) -> None:
        self._source = source
        self._size = size
        # Only `random()` is used: Python guarantees that its numbers stay the same.
        self._random = random.Random(key).random
        self._buffer: list[T] = []
        #: For each place of the buffer, the source position of its item.
        self._positions: list[int] = []
        self._read = 0
        self._given = 0
        #: Positions and states of the source; the first is the newest one that is not after any item in the buffer.
        self._snapshots: deque[tuple[int, Any]] = deque([(0, None)])
        self._resumed: tuple[int, Any] | None = None

    def items(self) -> Iterator[T]:
        buffer, positions, size, draw = self._buffer, self._positions, self._size, self._random
        iterator = self._begin()
        keeps_states = is_stateful(self._source)
        next_snapshot = self._read + size
        for item in iterator:
            if len(buffer) < size:
                buffer.append(item)
                positions.append(self._read)
                self._read += 1
                continue
            place = int(draw() * size)
            given, buffer[place] = buffer[place], item
            positions[place] = self._read
            self._read += 1
            self._given += 1
            if keeps_states and self._read >= next_snapshot:
                self._keep_state()
                next_snapshot += size
            yield given
        while buffer:
            place = int(draw() * len(buffer))
            given, buffer[place] = buffer[place], buffer[-1]
            positions[place] = positions[-1]
            buffer.pop()
            positions.pop()
            self._given += 1
            yield given

    def _keep_state(self) -> None:
        snapshots, oldest = self._snapshots, min(self._positions)
        snapshots.append((self._read, self._source.state_dict()))  # type: ignore[attr-defined]  # as is_stateful says
        while len(snapshots) > 1 and snapshots[1][0] <= oldest:
            snapshots.popleft()

    def state(self) -> dict[str, Any]:
        oldest = min(self._positions, default=self._read)
        position, state = next(each for each in reversed(self._snapshots) if each[0] <= oldest)
        return {"read": self._read, "given": self._given, "position": position, "source": state}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Repeat the draws up to the state. Afterwards the buffer's positions are known; its items are read later."""
        read, given = state["read"], state["given"]
        self._positions[:] = range(min(self._size, read))
        draw, size, positions = self._random, self._size, self._positions
        for position in range(size, read):
            positions[int(draw() * size)] = position
        for _ in range(given - max(0, read - size)):
            place = int(draw() * len(positions))
            positions[place] = positions[-1]
            positions.pop()
        self._read, self._given = read, given
        self._resumed = state["position"], state["source"]
        self._snapshots = deque([self._resumed])

    def _begin(self) -> Iterator[T]:
        if self._resumed is None:
            return iter(self._source)
        (position, state), self._resumed = self._resumed, None
        iterator = go_on(self._source, position, state)
        places = {at: place for place, at in enumerate(self._positions)}
        found: dict[int, T] = {}
        for at in range(position, self._read):
            item = next(iterator, _MISSING)
            if item is _MISSING:
                raise ResumeError(
                    f"cannot resume a buffer over a source of type {type(self._source).__qualname__}: it has only "
                    f"{at} items, and {self._read} had been read. It has changed since the state was taken"
                )
            if at in places:
                found[places[at]] = item
        self._buffer.extend(found[place] for place in range(len(places)))
        return iterator


_MISSING: Any = object()
