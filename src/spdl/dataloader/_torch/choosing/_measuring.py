"""Measure loading on the first batches: in one thread and in several side by side, in wall-clock and CPU time.

Nothing is loaded twice: the measured batches are the first ones of the epoch. Only if some failed side by side and not
alone, all that were loaded side by side are loaded again.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

from spdl._processes._transport._pickling import encode
from spdl.dataloader._torch._arguments import Plan
from spdl.dataloader._torch._thread_bound import Bound, find_bound
from spdl.dataloader._torch.threads._pieces import IntraOpLimit, Outcome, Piece, PieceLoader, split_into_samples
from spdl.pipeline import WorkerTimeoutError

from ._local import LocalLoader, ResumedIndices
from ._side_by_side import Helper, Rate, Stopwatch, call_side_by_side

#: Seconds for which samples are loaded one after the other, up to a third of the samples.
_ALONE_SECONDS: Final = 0.1
#: Minimum seconds of loading side by side; below it more batches are measured, as many as may be in flight. Threads
#: switch the GIL every 5 ms, so a shorter measurement would not show how they share it.
_LEAST_SECONDS: Final = 0.06
#: Share of the time below which a collate function is not measured side by side.
_MINOR: Final = 0.1
#: Seconds below which samples are measured by the batch, because the overhead per piece would dominate.
_TINY: Final = 1e-4
#: Maximum number of threads that load side by side.
_MOST_THREADS: Final = 32


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds per sample.

    Attributes:
        wall: Wall-clock seconds in one thread, with no others loading.
        cpu: CPU seconds. If measured, those of threads side by side, which share caches as in the real run.
        side_by_side: Wall-clock seconds divided by the number of samples, with several threads loading.
    """

    wall: float
    cpu: float
    side_by_side: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """Result of the measurement.

    Attributes:
        num_samples: Number of samples loaded.
        num_threads: Number of threads that loaded side by side.
        batch_size: Average number of samples in a batch.
        fetch: Cost of loading a sample.
        collate: Cost of collating, per sample.
        encode: Seconds to pickle a batch with its buffers out of band, without copying the buffers.
        batch_bytes: Number of bytes in those buffers.
        thread_error: Error that was raised side by side but not in one thread, so that dataset or collate function is
            not thread-safe; ``None`` if there was none.
        bound: Object that the dataset has opened and that threads cannot share; ``None``: none was found.
    """

    num_samples: int
    num_threads: int
    batch_size: float
    fetch: Cost
    collate: Cost
    encode: float
    batch_bytes: int
    thread_error: str | None = None
    bound: Bound | None = None


def measure(local: LocalLoader, indices: ResumedIndices, num_cpus: int) -> tuple[Measurement | None, list[Outcome]]:
    """Load the first batches and measure their cost.

    Args:
        local: Loader for the batches.
        indices: Index batches; at most as many are drawn as may be in flight.
        num_cpus: Number of threads that can run at once.

    Returns:
        The measurement, or ``None`` if there is none; and the batches or their errors, in order.

    Raises:
        WorkerTimeoutError: The plan has a timeout, and nothing was loaded or collated for so long.
    """
    trial = _Trial(local, num_cpus)
    try:
        trial.fetch(indices)
        outcomes = [trial.fetched[number] for number in sorted(trial.fetched)]
        with local.generators():
            concluded = _conclude(local.plan, trial, outcomes)
        trial.helper.close()
        return concluded
    except _TooLateError:
        raise WorkerTimeoutError(
            f"DataLoader timed out after {local.plan.timeout:g} seconds: workers='auto' was loading the first batches; "
            "the dataset is blocked, or needs more time"
        ) from None
    finally:
        trial.helper.close(wait=False)
        if trial.timeout is not None:
            local.renew()


class _TooLateError(Exception):
    """Our own timeout, not one that the dataset has raised."""


@contextmanager
def _limited() -> Iterator[None]:
    try:
        yield
    except TimeoutError as exc:
        raise _TooLateError from exc


class _Trial:
    """Loads samples and records the times."""

    def __init__(self, local: LocalLoader, num_cpus: int) -> None:
        self.local = local
        self.plan = plan = replace(local.plan, collate_fn=_identity, pin=None)
        self.loader = PieceLoader(plan)
        self._limit = IntraOpLimit()
        self._limit.keep_current()
        self.num_cpus = num_cpus
        self.num_threads = min(plan.num_workers, num_cpus)
        self.timeout = plan.timeout or None
        self.helper = Helper(self.timeout)
        self.bound: Bound | None = None
        self.fetched: dict[int, Outcome] = {}  # by batch number: samples, not collated
        self.thread_error: str | None = None
        self._indices: dict[int, Any] = {}  # by batch number
        self._failed_in_threads: list[int] = []  # batch numbers
        self.num_samples = 0
        self._is_warm = False
        self._is_tiny = False
        self._alone: list[tuple[float, float]] = []  # wall-clock and CPU seconds of each sample
        self._rates: dict[int, Rate] = {}  # of threads side by side, by their number

    def fetch(self, indices: ResumedIndices) -> None:
        """Load index batches until there are enough measurements."""
        budget = self.plan.prefetch_factor * self.plan.num_workers
        is_stale = False  # the measurements are of pieces of another size
        while len(self.fetched) < budget:
            pieces: list[Piece] = []
            num_drawn = len(self.fetched)
            while len(pieces) < 3 * self.num_threads and num_drawn < budget:
                batch = indices.draw()
                if batch is None:
                    break
                if self._is_tiny:
                    pieces.append(Piece(batch.indices, num_drawn))
                else:
                    pieces += split_into_samples(self.plan, batch.indices, num_drawn)
                self._indices[num_drawn] = batch.indices
                num_drawn += 1
            if not pieces:
                return
            if is_stale:
                is_stale = False
                self._alone.clear()
                self._rates.clear()
            with self.local.generators():
                self._fetch(pieces)
            if self.must_be_alone():
                return
            cost = self._median()
            if cost is not None and cost[0] < _TINY and not self._is_tiny:
                self._is_tiny = is_stale = True
            elif any(rate.seconds >= _LEAST_SECONDS for rate in self._rates.values()):
                return

    def _fetch(self, pieces: list[Piece]) -> None:
        weights = {id(piece): self._num_samples(piece) for piece in pieces}
        self.num_samples += sum(weights.values())
        todo = deque(pieces)
        num_alone = max(1, len(pieces) // 3)
        if not self._is_warm and len(pieces) > 2:
            self._is_warm = True
            # Not measured: the first one opens files and imports modules.
            self.call(self._load, todo.popleft())
        began = perf_counter()
        while todo and num_alone and perf_counter() - began < _ALONE_SECONDS:
            num_alone -= 1
            piece = todo.popleft()
            self.call(self._load_measured, (piece, weights[id(piece)]))
        # What they have opened is in the copy by now; threads side by side would read each other's bytes.
        plan = self.local.plan
        self.bound = self.bound or find_bound(dataset=plan.dataset, collate_fn=plan.collate_fn)
        if self.bound is not None:
            for piece in todo:
                self.call(self._load, piece)
            self._load_failed_again([])
            return
        cost = self._median()
        if cost is not None and cost[1] < 0.5 * cost[0]:  # loading waits, so more threads than CPUs help
            self.num_threads = min(self.plan.num_workers, _MOST_THREADS)
        num_threads = min(self.num_threads, len(todo))
        load = self._load_in_thread if num_threads > 1 else self._load
        rate = self.call_side_by_side(load, list(todo), num_threads, [weights[id(piece)] for piece in todo])
        if rate is not None:
            known = self._rates.get(num_threads)
            self._rates[num_threads] = rate if known is None else known.joined(rate)
        self._load_failed_again(sorted({piece.number for piece in todo}))

    def _load_failed_again(self, side_by_side: list[int]) -> None:
        """Load batches that failed in other threads in this one. If that works, the others may be wrong too."""
        failed = {number for number in self._failed_in_threads if self._load_again(number)}
        self._failed_in_threads.clear()
        if failed:
            for number in side_by_side:
                if number not in failed:
                    self._load_again(number)

    def _load_again(self, number: int) -> bool:
        """Load a batch again in this thread. Returns whether it failed before, and not now."""
        before = self.fetched[number]
        again = self.loader(Piece(self._indices[number], number))
        assert again is not None
        self.fetched[number] = again
        if before.has_batch() or not again.has_batch():
            return False
        self.thread_error = _text_of(before.error)
        return True

    def must_be_alone(self) -> bool:
        """Whether nothing may be done side by side."""
        return self.bound is not None or self.thread_error is not None

    def call(self, function: Callable[[Any], None], argument: Any) -> None:
        with _limited():
            self.helper.call(function, argument)

    def call_side_by_side(
        self, function: Callable[[Any], None], arguments: list[Any], num_threads: int, weights: list[int]
    ) -> Rate | None:
        if num_threads < 2:
            for argument in arguments:
                self.call(function, argument)
            return None
        with _limited():
            return call_side_by_side(function, arguments, num_threads, weights, self.timeout)

    def _load(self, piece: Piece) -> None:
        outcome = self.loader(piece)
        if outcome is not None:
            self.fetched[piece.number] = outcome
            if not outcome.has_batch() and self.timeout is not None:  # in the helper's thread
                self._failed_in_threads.append(piece.number)

    def _load_measured(self, measured: tuple[Piece, int]) -> None:
        piece, weight = measured
        watch = Stopwatch()
        self._load(piece)
        wall, cpu = watch.read()
        self._alone.append((wall / weight, cpu / weight))

    def _load_in_thread(self, piece: Piece) -> None:
        self._limit.apply()
        self._load(piece)
        outcome = self.fetched.get(piece.number)
        if self.timeout is None and outcome is not None and not outcome.has_batch():
            self._failed_in_threads.append(piece.number)

    def _num_samples(self, piece: Piece) -> int:
        """Number of samples in a piece: one, unless its batch cannot be split."""
        if piece.whole is not None or not self.plan.is_batched:
            return 1
        try:
            return max(1, len(piece.value))
        except TypeError:
            return 1

    def _median(self) -> tuple[float, float] | None:
        if not self._alone:
            return None
        return sorted(self._alone)[len(self._alone) // 2]

    def cost(self) -> tuple[Cost, int] | None:
        """The cost of loading and the number of threads side by side; ``None`` if too little was loaded."""
        alone = self._median()
        if alone is None:
            return None
        wall, cpu = alone
        if not self._rates:
            return Cost(wall, cpu, wall), 1
        num_threads = max(self._rates, key=lambda number: self._rates[number].seconds)
        return _cost(wall, cpu, self._rates[num_threads]), num_threads


def _cost(wall: float, cpu: float, rate: "Rate") -> Cost:
    """The cost with CPU time measured side by side, and waiting time in one thread."""
    on_cpu = rate.cpu / rate.num_samples
    return Cost(max(0.0, wall - cpu) + on_cpu, on_cpu, rate.seconds / rate.num_samples)


def _conclude(plan: Plan, trial: _Trial, fetched: list[Outcome]) -> tuple[Measurement | None, list[Outcome]]:
    """Collate the batches and combine all measurements."""
    sizes = [_size(plan, outcome) for outcome in fetched]
    found = trial.cost()
    outcomes, collating, thread_error = _collate(plan, fetched, sizes, trial, found)
    sending = _sending_cost(outcomes)
    if plan.pin is not None:
        outcomes = [outcome.then(plan.pin, number) for number, outcome in enumerate(outcomes)]
    if found is None or sending is None:
        return None, outcomes
    fetching, num_threads = found
    size = sum(sizes) / len(sizes)
    thread_error = trial.thread_error or thread_error
    measured = Measurement(
        trial.num_samples, num_threads, size, fetching, collating, *sending, thread_error, trial.bound
    )
    return measured, outcomes


def _collate(
    plan: Plan, fetched: list[Outcome], sizes: list[int], trial: _Trial, found: tuple[Cost, int] | None
) -> tuple[list[Outcome], Cost, str | None]:
    """The batches, the cost of collating per sample, and the error raised only side by side."""
    done = dict(enumerate(fetched))
    whole = [number for number, outcome in done.items() if outcome.has_batch()]
    if not whole:
        return fetched, Cost(0.0, 0.0, 0.0), None

    def collate(number: int) -> None:
        done[number] = fetched[number].then(plan.collate_fn, number)

    first, *others = whole
    watch = Stopwatch()
    collate(first)
    wall, cpu = (seconds / sizes[first] for seconds in watch.read())
    num_threads = min(plan.num_workers, trial.num_cpus)
    cost = Cost(wall, cpu, wall / num_threads)
    error = None
    if found is not None and wall > _MINOR * (found[0].side_by_side + wall) and not trial.must_be_alone():
        rate = trial.call_side_by_side(collate, others, min(num_threads, len(others)), [sizes[n] for n in others])
        if rate is not None:
            cost = _cost(wall, cpu, rate)
            failed = [number for number in others if not done[number].has_batch()]
            for number in failed:
                before = done[number].error
                collate(number)
                error = _text_of(before) if done[number].has_batch() else error
    else:
        for number in others:
            collate(number)
    return [done[number] for number in sorted(done)], cost, error


def _sending_cost(outcomes: list[Outcome]) -> tuple[float, int] | None:
    """Seconds to pickle a batch, and the bytes of its buffers; ``None`` if there is no batch."""
    for outcome in outcomes:
        if outcome.has_batch():
            began = perf_counter()
            try:
                encoded = encode(outcome.unwrap())
            except Exception:  # noqa: BLE001 - of user code; raised later if batches are really pickled
                return 0.0, 0
            return perf_counter() - began, sum(memoryview(buffer).nbytes for buffer in encoded.buffers)
    return None


def _size(plan: Plan, outcome: Outcome) -> int:
    if not plan.is_batched or not outcome.has_batch():
        return 1
    try:
        return max(1, len(outcome.unwrap()))
    except TypeError:  # __getitems__ may return anything that the collate function accepts
        return 1


def _text_of(error: BaseException | None) -> str:
    """Type and text of an error. The exception itself would keep the frames of its traceback alive."""
    return f"{type(error).__name__}: {error}"


def _identity(samples: Any) -> Any:
    return samples
