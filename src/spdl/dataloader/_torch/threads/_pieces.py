"""Index batches split into pieces: several threads load them in any order, and the last one joins them."""

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from spdl._reports import add_note
from spdl.dataloader._torch._arguments import Plan
from spdl.dataloader._torch._fetching import fetch_sample, fetch_samples
from spdl.dataloader._torch.resuming._progress import Recorded
from spdl.dataloader._torch.resuming._streams import DatasetStates

#: Minimum duration of a piece; handing one to another thread costs up to 0.05 ms.
_LEAST_SECONDS: Final = 1e-3

#: Number of samples of a batch whose number is not known before it is drawn.
_SAMPLES: Final = 64

#: Weight of the latest measurement in the moving average of the time per sample.
_WEIGHT: Final = 0.2


class IntraOpLimit(threading.local):
    """Limit torch in the calling thread, once per thread.

    Without the limit, each of ``n`` loading threads would use as many threads as there are CPUs for every large copy:
    ``n`` times too many. Worker processes of torch's loader are limited in the same way.

    ``torch.set_num_threads`` sets the number for the calling thread and the default for threads that have not used
    theirs yet, the user's included. So a temporary thread restores that default.
    """

    _is_known = False

    def apply(self) -> None:
        """Limit the calling thread. Further calls do nothing."""
        if self._is_known:
            return
        self._is_known = True
        import torch

        num_threads = torch.get_num_threads()
        if num_threads > 1:
            torch.set_num_threads(1)
            restore = threading.Thread(target=torch.set_num_threads, args=(num_threads,), name="spdl-restore")
            restore.start()
            restore.join()

    @staticmethod
    def keep_current() -> None:
        """Make the calling thread keep its number of threads, even if ``apply`` is called in others."""
        import torch

        torch.get_num_threads()


class Outcome:
    """A batch or the exception raised instead. Never ``None``, which a pipeline drops; a batch may be."""

    __slots__ = ("_batch", "_error", "number", "recorded")

    def __init__(self, batch: Any, error: BaseException | None = None) -> None:
        self._batch = batch
        self._error = error
        self.number = 0
        #: State of the dataset just after this batch, if it was recorded.
        self.recorded: Recorded | None = None

    @classmethod
    def failed(cls, error: BaseException, note: str) -> "Outcome":
        add_note(error, note)
        return cls(None, error)

    @property
    def error(self) -> BaseException | None:
        """The exception raised instead of a batch; ``None`` if there is a batch."""
        return self._error

    def has_batch(self) -> bool:
        """Whether ``unwrap`` will not raise."""
        return self._error is None

    def then(self, function: Callable[[Any], Any], number: int) -> "Outcome":
        """Apply ``function`` to batch number ``number``; if there is an error, keep it."""
        if self._error is not None:
            return self
        try:
            return Outcome(function(self._batch))
        except Exception as exc:  # noqa: BLE001 - of the collate function; raised in the consumer
            return Outcome.failed(exc, f"while batch {number} was collated in {threading.current_thread().name}")

    def unwrap(self) -> Any:
        """The batch; raises the error if there is one."""
        error, self._error = self._error, None
        if error is not None:
            try:
                if isinstance(error, StopIteration):  # it would end the consumer's loop silently
                    raise RuntimeError("the dataset or the collate function raised StopIteration") from error
                raise error
            finally:
                error = None  # otherwise its traceback and this frame would refer to each other
        return self._batch


class _SplitBatch:
    """An index batch that was split. Several threads may be loading its pieces. Thread-safe."""

    __slots__ = ("_error", "_error_at", "_last", "_lock", "_missing", "_parts", "indices", "number")

    def __init__(self, indices: Any, number: int, num_pieces: int) -> None:
        self.indices = indices
        self.number = number
        self._lock = threading.Lock()
        self._parts: list[list[Any]] = [[]] * num_pieces
        self._missing = set(range(num_pieces))
        self._last: int | None = None  # the piece that was put last, whose call joins all
        self._error: BaseException | None = None
        self._error_at = num_pieces

    def has_failed_before(self, position: int) -> bool:
        """Whether an earlier piece has failed, so that this one need not be loaded."""
        return self._error_at < position

    def put(self, position: int, samples: list[Any] | None, error: BaseException | None) -> bool:
        """Store the samples of a piece, or its error. Returns whether it was the last missing piece."""
        with self._lock:
            if position not in self._missing:  # it was abandoned because its call took too long
                return False
            return self._put(position, samples, error)

    def abandon(self, position: int, error: BaseException) -> bool:
        """Give up a piece whose call took too long. Returns whether this call must report the error for the batch.

        The late call may already have put the piece, and may be the one that collates the batch.
        """
        with self._lock:
            if position in self._missing:
                return self._put(position, None, error)
            if position != self._last:
                return False
            if self._error is None:
                self._error = error
            return True

    def _put(self, position: int, samples: list[Any] | None, error: BaseException | None) -> bool:
        if error is not None and position < self._error_at:
            self._error, self._error_at = error, position
        elif samples is not None:
            self._parts[position] = samples
        self._missing.remove(position)
        if self._missing:
            return False
        self._last = position
        return True

    @property
    def error(self) -> BaseException | None:
        """The error of the first piece that has failed."""
        return self._error

    def join(self) -> list[Any]:
        """All samples in order, once no piece is missing.

        Raises:
            BaseException: The error of the first piece that has failed.
        """
        if self._error is not None:
            raise self._error
        return [sample for part in self._parts for sample in part]


class Piece:
    """Part of an index batch, or all of it; for an iterable dataset, the samples of a batch."""

    __slots__ = ("number", "position", "recorded", "value", "whole")

    def __init__(
        self,
        value: Any,
        number: int,
        whole: _SplitBatch | None = None,
        position: int = 0,
        recorded: Recorded | None = None,
    ) -> None:
        #: Indices of this piece; for an iterable dataset, the samples to collate.
        self.value = value
        self.number = number
        self.whole = whole
        self.position = position
        #: State of the iterable dataset just after these samples, if it was recorded.
        self.recorded = recorded

    def __repr__(self) -> str:
        return f"<batch {self.number}: {_shown(self.value)}>"


class Splitter:
    """Splits index batches into pieces. Used in the consumer's thread.

    Args:
        loader: The op that loads the pieces.
        is_whole: Whether to leave batches whole.
    """

    def __init__(self, loader: "PieceLoader", *, is_whole: bool = False) -> None:
        plan = loader.plan
        self._loader = loader
        self._is_whole = is_whole
        #: Maximum number of pieces of one batch.
        self.most_pieces = plan.num_workers if plan.is_batched and may_split(plan.dataset) else 1
        self._is_by_sample = plan.call_timeout is not None
        if self._is_by_sample and plan.is_batched and may_split(plan.dataset):
            self.most_pieces = max(self.most_pieces, plan.batch_size or _SAMPLES)

    def split(self, indices: Any, number: int) -> list[Piece]:
        """The pieces of batch ``number``: as many as there are threads, unless they would be too small.

        With ``call_timeout``, a piece for each sample.
        """
        if self._is_whole:
            return [Piece(indices, number)]
        if self._is_by_sample:
            return split_into_samples(self._loader.plan, indices, number)
        num_pieces = self.most_pieces
        if num_pieces > 1:
            num_pieces = min(num_pieces, len(indices)) if isinstance(indices, list | tuple) else 1
        if num_pieces > 1 and (seconds := self._loader.seconds_per_sample) is not None:
            num_pieces = min(num_pieces, int(seconds * len(indices) / _LEAST_SECONDS))
        return _split(indices, number, num_pieces)


def split_into_samples(plan: Plan, indices: Any, number: int) -> list[Piece]:
    """A piece for each sample of batch ``number``, or one for all if it cannot be split."""
    if plan.is_batched and isinstance(indices, list | tuple) and may_split(plan.dataset):
        return _split(indices, number, len(indices))
    return [Piece(indices, number)]


def _split(indices: Any, number: int, num_pieces: int) -> list[Piece]:
    if num_pieces <= 1:
        return [Piece(indices, number)]
    whole = _SplitBatch(indices, number, num_pieces)
    bounds = [len(indices) * position // num_pieces for position in range(num_pieces + 1)]
    return [
        Piece(indices[bounds[position] : bounds[position + 1]], number, whole, position)
        for position in range(num_pieces)
    ]


class PieceLoader:
    """Pipeline op that loads a piece. The last piece of a batch returns the collated batch, the others ``None``.

    Args:
        plan: Plan with a map-style dataset.
        limit: Limit to apply to the calling threads; ``None``: none, because they are not used only for loading.
    """

    #: For the engine: a result of ``None`` does not count as a dropped item.
    spdl_joins_inputs: Final = True

    def __init__(self, plan: Plan, limit: IntraOpLimit | None = None) -> None:
        self.plan = plan
        self._limit = limit
        #: Moving average of the time per sample, waiting included. Written by all threads without a lock: an update
        #: may be lost.
        self.seconds_per_sample: float | None = None
        self._finish = _Collator(plan)
        #: Records the state of the dataset after each batch; ``None``: it has none. Pieces must come one by one.
        self.states: DatasetStates | None = None

    def __call__(self, piece: Piece) -> Outcome | None:
        outcome = self._load(piece)
        if outcome is not None:
            outcome.number = piece.number
            if self.states is not None:
                outcome.recorded = self.states.after_batch()
        return outcome

    def _load(self, piece: Piece) -> Outcome | None:
        plan, whole = self.plan, piece.whole
        if self._limit is not None:
            self._limit.apply()
        error = None
        try:
            if whole is None and not plan.is_batched:
                return self._finish(fetch_sample(plan.dataset, piece.value, plan.sample_policy))
            samples = None
            if whole is None or not whole.has_failed_before(piece.position):
                samples = self._fetch(piece.value)
            if whole is None:
                return self._finish(samples)
        except BaseException as exc:  # noqa: BLE001 - of the dataset; raised in the consumer
            if whole is None:
                return Outcome.failed(exc, _note(piece.number, piece.value))
            error = exc
        if not whole.put(piece.position, samples if error is None else None, error):
            return None
        error = None
        try:
            return self._finish(whole.join())
        except BaseException as exc:  # noqa: BLE001 - of the user's code; raised in the consumer
            return Outcome.failed(exc, _note(whole.number, whole.indices))

    def abandon(self, piece: Piece, error: Exception) -> Outcome | None:
        """Return the outcome of a call that took too long: ``on_error`` of the stage. The late result is discarded."""
        whole = piece.whole
        add_note(error, f"while {_shown(piece.value)} of batch {piece.number} was loaded")
        if whole is not None and not whole.abandon(piece.position, error):
            return None
        outcome = Outcome(None, error if whole is None else whole.error)
        outcome.number = piece.number
        return outcome

    def _fetch(self, indices: Any) -> Any:
        began = perf_counter()
        samples = fetch_samples(self.plan.dataset, indices, self.plan.sample_policy)
        if isinstance(samples, list) and samples:
            taken = (perf_counter() - began) / len(samples)
            known = self.seconds_per_sample
            self.seconds_per_sample = taken if known is None else known + _WEIGHT * (taken - known)
        return samples


class SampleLoader:
    """Pipeline op that collates the samples of an iterable dataset."""

    def __init__(self, plan: Plan, limit: IntraOpLimit) -> None:
        self._limit = limit
        self._finish = _Collator(plan)

    def __call__(self, piece: Piece | Outcome) -> Outcome:
        self._limit.apply()
        if isinstance(piece, Outcome):
            return piece
        try:
            outcome = self._finish(piece.value)
        except BaseException as exc:  # noqa: BLE001 - of the collate function; raised in the consumer
            note = f"while batch {piece.number} was collated in {threading.current_thread().name}"
            outcome = Outcome.failed(exc, note)
        outcome.number, outcome.recorded = piece.number, piece.recorded
        return outcome


class _Collator:
    """Collates and pins the samples of a batch."""

    __slots__ = ("_collate", "_pin")

    def __init__(self, plan: Plan) -> None:
        self._collate: Callable[[Any], Any] = plan.collate_fn
        self._pin = plan.pin

    def __call__(self, samples: Any) -> Outcome:
        batch = self._collate(samples)
        return Outcome(batch if self._pin is None else self._pin(batch))


def may_split(dataset: Any) -> bool:
    """Whether the samples of a batch may be loaded in parts.

    False if the dataset has ``__getitems__``, which may make one query for all indices and need not return a list.
    torch's own wrappers always have the method, but load one sample at a time if the wrapped dataset does not have
    it.
    """
    from torch.utils.data import StackDataset, Subset

    if not getattr(dataset, "__getitems__", None):
        return True
    if type(dataset) is Subset:
        return may_split(dataset.dataset)
    if type(dataset) is StackDataset:
        parts = dataset.datasets
        return all(may_split(part) for part in (parts.values() if isinstance(parts, dict) else parts))
    return False


def _note(number: int, indices: Any) -> str:
    return f"while batch {number} was loaded in {threading.current_thread().name}, {_shown(indices)}"


def _shown(indices: Any) -> str:
    text = repr(indices)
    return f"indices {text if len(text) <= 100 else f'{text[:97]}...'}"
