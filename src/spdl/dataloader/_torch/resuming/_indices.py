"""``Indices``: the index batches of a loader's epochs, counted, from the position of a loaded state."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, Final, NamedTuple

from spdl.resume._values import ResumeError

from ._progress import Progress, Recorded, Stater, end_of, finish, load_passing, load_state, start_of
from ._random import Arrival

_END: Final = object()


class Indices:
    """Replaces the sampler in a plan: yields the same index batches, and records in ``progress`` which were drawn.

    ``begin`` is called before each epoch. Then each ``iter()`` starts where ``progress`` says: at the beginning, or
    after the batches that were taken before the epoch was interrupted. To get there, this

    1. moves by position, in constant time, if the sampler has ``__getitem__``;
    2. otherwise loads the recorded state of the sampler, or of its iterator, if it has ``state_dict``;
    3. otherwise draws index batches and discards them.

    Then the last index batch is compared with the one that was drawn before.

    Args:
        sampler: The batch sampler, or the sampler if samples are not batched.
        batch: Size of a batch and ``drop_last``, if the batch sampler is torch's own; its sampler is then used
            directly.
    """

    def __init__(self, sampler: Any, batch: tuple[int, bool] | None) -> None:
        self._sampler = sampler
        self._inner = sampler if batch is None else sampler.sampler
        self._batch = batch
        self._progress = Progress()
        self._recorded: Recorded | None = None
        self._check: int | None = None
        self._latest: _Drawing | None = None
        self._order: Sequence[int] | None = None
        self._arrival: Arrival | None = None

    def begin(
        self,
        progress: Progress,
        recorded: Recorded | None = None,
        check: int | None = None,
        order: Sequence[int] | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        """Prepare the next ``iter()``.

        Args:
            progress: Progress of the epoch; ``progress.taken`` index batches are skipped.
            recorded: State of the sampler to load.
            check: Checksum of the last index batch that is skipped.
            order: Global positions of the indices, if the remainder of an epoch was distributed again over the ranks.
            arrival: Told how many index batches were drawn, from the skipped ones on.
        """
        self._order = order
        self._arrival = arrival
        self._progress = progress
        self._recorded = recorded
        self._check = check
        self._latest = None
        # Most samplers are begun with the first index batch only, and a state may be asked for before.
        if order is None and (recorded is not None or not _has_positions(self._inner)):
            before = None if progress.before is None else progress.before.sampler
            if (first := recorded or before or start_of(self._inner)) is not None:
                progress.note_sampler(first)

    def catch_up(self) -> None:
        """Draw now what was drawn before the epoch was interrupted, so that random numbers are drawn from the same."""
        if self._latest is not None:
            self._latest.catch_up()

    def __iter__(self) -> Iterator[Any]:
        self._latest = _Drawing(self, self._progress)
        return self._latest

    def __len__(self) -> int:
        return len(self._sampler)

    @property
    def is_lazy(self) -> bool:
        """Whether the sampler is not begun before the first index batch is drawn: torch's batch sampler is lazy."""
        return self._batch is not None

    def open(self, progress: Progress) -> _Opened:
        """Begin a pass over the sampler."""
        recorded, target, inner = self._recorded, progress.taken, self._inner
        if self._order is not None:
            return _Opened(self._from(max(target - 1, 0)), max(target - 1, 0))
        if recorded is not None and recorded.where == "before":
            finish(inner, recorded.state, "the sampler")
            recorded = None
        own = None
        if recorded is not None:
            own = recorded.state if recorded.where == "sampler" else recorded.beside
        if recorded is not None and recorded.has_ended:
            if own is not None:
                finish(inner, own, "the sampler")
            else:
                singles = iter(inner)
                load_state(singles, recorded.state, "the iterator of the sampler")  # with which it draws what it drew
                next(singles, None)
            return _Opened(iter(()), recorded.num_given, first=recorded)
        if own is not None:
            progress.residues.append(load_passing(inner, own, "the sampler"))
        elif recorded is None and _has_positions(inner):
            return _Opened(iter(self._sampler), 0) if target == 0 else _Opened(self._from(target - 1), target - 1)
        first = start_of(inner) if recorded is None else recorded
        singles = iter(inner)
        if recorded is not None and recorded.where == "iterator":
            load_state(singles, recorded.state, "the iterator of the sampler")
        number = 0 if recorded is None else recorded.num_given
        stater = Stater.find(singles, sampler=inner)
        if stater is not None:
            singles = map(next, repeat(singles))  # islice() calls iter(), with which an iterator may begin again
        if self._batch is None:
            return _Opened(singles, number, stater, first)
        if stater is None and target - number > 1:
            # Skip single indices, which is faster than skipping batches.
            num_passed = (target - 1 - number) * self._batch[0]
            next(islice(singles, num_passed - 1, num_passed), None)
            number = target - 1
        return _Opened(_in_batches(singles, *self._batch), number, stater, first)

    def _from(self, number: int) -> Iterator[Any]:
        """The index batches from ``number`` on, by position."""
        inner, order = self._inner, self._order
        size = len(inner if order is None else order)
        positions = range(number * (1 if self._batch is None else self._batch[0]), size)
        singles: Iterator[Any]
        if order is not None:
            singles = (inner.at_global(order[position]) for position in positions)
        else:
            singles = iter(positions) if _is_sequential(inner) else (inner[position] for position in positions)
        return singles if self._batch is None else _in_batches(singles, *self._batch)

    def is_short(self, indices: Any) -> bool:
        """Whether the sampler has ended within this batch."""
        return self._batch is not None and len(indices) < self._batch[0]

    def end(self, progress: Progress) -> None:
        """Note that a pass has ended."""
        progress.note_sampler_end(end_of(self._inner))

    def verify(self, indices: Any, number: int) -> None:
        """Compare the last skipped index batch with the saved checksum.

        Raises:
            ResumeError: They differ.
        """
        check = self._check
        if check is None or checksum(indices) in (check, None):
            return
        raise ResumeError(
            f"cannot resume: the sampler ({type(self._inner).__name__}) gave other indices for batch {number} than "
            "before the state was saved. Its order must be a function of torch's generator or of set_epoch(), or it "
            "must have state_dict() and load_state_dict()"
        )


class _Opened(NamedTuple):
    """A pass over a sampler.

    Attributes:
        iterator: Its iterator.
        number: The number of its next index batch.
        stater: Its state recorder, if any.
        first: The state that it begins from: a generator has nothing of it yet, and so has the sampler.
    """

    iterator: Iterator[Any]
    number: int
    stater: Stater | None = None
    first: Recorded | None = None


class _Drawing(Iterator[Any]):
    """One pass over the index batches."""

    def __init__(self, owner: Indices, progress: Progress) -> None:
        self._owner = owner
        self._progress = progress
        self._opened = None if owner.is_lazy else owner.open(progress)
        self._iterator: Iterator[Any] | None = None
        self._stater: Stater | None = None
        self._arrival = owner._arrival
        self._number = 0
        self._early: deque[Any] = deque()  # drawn before they were asked for
        self._error: BaseException | None = None

    def catch_up(self) -> None:
        arrival = self._arrival
        if arrival is None:
            return
        if arrival.num_drawn == 0:
            arrival.reach(0)
            return
        try:
            if self._iterator is None:
                self._begin()
            while self._number < arrival.num_drawn:
                self._early.append(self._draw())
        except BaseException as exc:  # noqa: BLE001 - raised by a later call of __next__
            self._error = exc

    def __next__(self) -> Any:
        if self._early:
            return self._early.popleft()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._draw()

    def _draw(self) -> Any:
        iterator = self._iterator or self._begin()
        progress = self._progress
        while True:
            try:
                indices = next(iterator)
            except StopIteration:
                self._owner.end(progress)
                raise
            number = self._number
            self._number = number + 1
            if self._stater is not None and (number + 1) % progress.snapshot_every == 0:
                has_ended = self._owner.is_short(indices)
                progress.note_sampler(self._stater.record(number + 1, has_ended=has_ended))
            if self._arrival is not None:
                self._arrival.reach(number + 1)
            if number not in progress.skipped:
                break
        progress.note_drawn(number, indices)
        return indices

    def _begin(self) -> Iterator[Any]:
        """Skip the index batches that were taken."""
        owner, progress, arrival = self._owner, self._progress, self._arrival
        if arrival is not None:
            arrival.reach(0)
        iterator, number, stater, first = self._opened or owner.open(progress)
        self._iterator, self._stater = iterator, stater
        if stater is not None and number == 0 and stater.where == "iterator":
            progress.note_sampler(stater.record(0))
        elif first is not None:
            progress.note_sampler(first)
        indices: Any = None
        while number < progress.taken:
            indices = next(iterator, _END)
            if indices is _END:
                raise ResumeError(
                    f"cannot resume: {progress.taken} batches were taken before the state was saved, and the sampler "
                    f"has only {number}"
                )
            number += 1
        if indices is not None:
            owner.verify(indices, number - 1)
            progress.note_drawn(number - 1, indices)
        if arrival is not None and number > 0:
            arrival.reach(number)
        self._number = number
        return iterator


def is_plain(sampler: Any) -> bool:
    """Whether there is no batch sampler, or torch's own, so that its sampler is used directly."""
    from torch.utils.data import BatchSampler

    return sampler is None or type(sampler) is BatchSampler


def _has_positions(sampler: Any) -> bool:
    """Whether the sampler can be indexed by position."""
    kind = type(sampler)
    return _is_sequential(sampler) or (
        callable(getattr(kind, "__getitem__", None)) and callable(getattr(kind, "__len__", None))
    )


def _is_sequential(sampler: Any) -> bool:
    from torch.utils.data import SequentialSampler

    return type(sampler) is SequentialSampler


def _in_batches(singles: Iterator[Any], size: int, drop_last: bool) -> Iterator[Any]:
    """Lists of ``size`` indices, as torch's ``BatchSampler`` makes them."""
    while batch := list(islice(singles, size)):
        if len(batch) < size and drop_last:
            return
        yield batch


def checksum(indices: Any) -> int | None:
    """A checksum of an index batch; ``None`` if it has objects whose text may change."""
    plain: Iterable[Any] = indices if isinstance(indices, list | tuple) else (indices,)
    if not all(type(each) in (int, str) for each in plain):
        return None
    return zlib.crc32(repr(indices).encode())
