"""What loading costs, measured on the first batches: alone and side by side, in wall time and in CPU time.

The batches are not loaded for the measurement: they are the first ones of the epoch.
"""

from collections import deque
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

from spdl._processes._transport._pickling import encode

from ._intra_op import IntraOpLimit
from ._local import LocalLoader
from ._pieces import Outcome, Piece, PieceLoader, cut_samples
from ._plan import Plan
from ._resumed import ResumedIndices
from ._side_by_side import Rate, Watch, call_side_by_side

__all__ = ["Cost", "Measurement", "measure"]

#: How long samples are loaded one after the other. Shorter ones are measured more often, up to a third of them.
_ALONE_SECONDS: Final = 0.1
#: Below this much loading side by side, more batches are measured, as many as may be under way. Threads hand the GIL to
#: each other every 5 ms, so that less would show who came first, not how they share.
_LEAST_SECONDS: Final = 0.06
#: A collate function that takes less than this share of the time is not measured side by side.
_MINOR: Final = 0.1
#: Samples that take less are measured by the batch: what is done for each piece would count for more than they do.
_TINY: Final = 1e-4
#: Most threads that load side by side.
_MOST_THREADS: Final = 32


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that a sample takes.

    Attributes:
        wall: From begin to end, with nothing beside it.
        cpu: Of that, on a CPU. Taken side by side if that was tried: caches are shared then, as they will be.
        side_by_side: From the end of one to the end of the next, with several threads at it.
    """

    wall: float
    cpu: float
    side_by_side: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was found.

    Attributes:
        num_samples: How many samples were loaded.
        num_threads: How many threads were side by side.
        batch_size: Samples in a batch, on average.
        fetch: Of a sample.
        collate: Of collating, for each sample.
        encode: Seconds to take a batch apart for the way from a worker process, without copying its buffers.
        batch_bytes: Bytes of those buffers.
        thread_error: What was raised side by side and then not alone; ``None`` if nothing was. The dataset or the
            collate function is not made for threads then.
    """

    num_samples: int
    num_threads: int
    batch_size: float
    fetch: Cost
    collate: Cost
    encode: float
    batch_bytes: int
    thread_error: str | None = None


def measure(local: LocalLoader, indices: ResumedIndices, num_cpus: int) -> tuple[Measurement | None, list[Outcome]]:
    """Load the first batches, and tell what that cost.

    Args:
        local: Where they are loaded.
        indices: Where index batches are drawn from, no more than may be under way at once.
        num_cpus: How many threads can run at once.

    Returns:
        What was measured, ``None`` if nothing could be; and the batches, or why they failed, in order.
    """
    trial = _Trial(local, num_cpus)
    trial.fetch(indices)
    outcomes = [trial.fetched[number] for number in sorted(trial.fetched)]
    with local.generators():
        return _conclude(local.plan, trial, outcomes)


class _Trial:
    """Fetches samples and keeps the times."""

    def __init__(self, local: LocalLoader, num_cpus: int) -> None:
        self.local = local
        self.plan = plan = replace(local.plan, collate_fn=_as_they_are, pin=None)
        self.loader = PieceLoader(plan)
        self._limit = IntraOpLimit()
        self._limit.spare()
        self.num_cpus = num_cpus
        self.num_threads = min(plan.num_workers, num_cpus)
        self.fetched: dict[int, Outcome] = {}  # by number of the batch: samples, not collated
        self.thread_error: str | None = None
        self._indices: dict[int, Any] = {}  # by number of the batch
        self._failed_in_threads: list[int] = []  # numbers of batches
        self.num_samples = 0
        self._is_warm = False
        self._is_tiny = False
        self._alone: list[tuple[float, float]] = []  # wall, CPU of each
        self._rates: dict[int, Rate] = {}  # side by side, by number of threads

    def fetch(self, indices: ResumedIndices) -> None:
        """Fetch index batches until there is enough to judge by."""
        budget = self.plan.prefetch_factor * self.plan.num_workers
        is_stale = False  # what was measured is of pieces of another size
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
                    pieces += cut_samples(self.plan, batch.indices, num_drawn)
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
            self._load(todo.popleft())  # the first one opens files and imports modules
        began = perf_counter()
        while todo and num_alone and perf_counter() - began < _ALONE_SECONDS:
            num_alone -= 1
            piece = todo.popleft()
            watch = Watch()
            self._load(piece)
            wall, cpu = watch.read()
            self._alone.append((wall / weights[id(piece)], cpu / weights[id(piece)]))
        cost = self._median()
        if cost is not None and cost[1] < 0.5 * cost[0]:  # it waits: more threads than CPUs are of use
            self.num_threads = min(self.plan.num_workers, _MOST_THREADS)
        num_threads = min(self.num_threads, len(todo))
        load = self._load_in_thread if num_threads > 1 else self._load
        rate = call_side_by_side(load, list(todo), num_threads, [weights[id(piece)] for piece in todo])
        if rate is not None:
            known = self._rates.get(num_threads)
            self._rates[num_threads] = rate if known is None else known.joined(rate)
        for number in self._failed_in_threads:
            again = self.loader(Piece(self._indices[number], number))
            assert again is not None
            if again.has_batch():
                self.thread_error = _describe(self.fetched[number].error)
            self.fetched[number] = again
        self._failed_in_threads.clear()

    def _load(self, piece: Piece) -> None:
        outcome = self.loader(piece)
        if outcome is not None:
            self.fetched[piece.number] = outcome

    def _load_in_thread(self, piece: Piece) -> None:
        self._limit.apply()
        self._load(piece)
        outcome = self.fetched.get(piece.number)
        if outcome is not None and not outcome.has_batch():
            self._failed_in_threads.append(piece.number)

    def _num_samples(self, piece: Piece) -> int:
        """A piece is one sample, unless its batch cannot be cut."""
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
        """And how many threads were side by side; ``None`` if not enough was fetched."""
        alone = self._median()
        if alone is None:
            return None
        wall, cpu = alone
        if not self._rates:
            return Cost(wall, cpu, wall), 1
        num_threads = max(self._rates, key=lambda number: self._rates[number].seconds)
        return _cost(wall, cpu, self._rates[num_threads]), num_threads


def _cost(wall: float, cpu: float, rate: "Rate") -> Cost:
    """What waits alone waits side by side, or for the GIL."""
    on_cpu = rate.cpu / rate.num_samples
    return Cost(max(0.0, wall - cpu) + on_cpu, on_cpu, rate.seconds / rate.num_samples)


def _conclude(plan: Plan, trial: _Trial, fetched: list[Outcome]) -> tuple[Measurement | None, list[Outcome]]:
    """Collate, and put together what was found."""
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
    return Measurement(trial.num_samples, num_threads, size, fetching, collating, *sending, thread_error), outcomes


def _collate(
    plan: Plan, fetched: list[Outcome], sizes: list[int], trial: _Trial, found: tuple[Cost, int] | None
) -> tuple[list[Outcome], Cost, str | None]:
    """The batches; what collating cost for each sample; what failed side by side only."""
    done = dict(enumerate(fetched))
    whole = [number for number, outcome in done.items() if outcome.has_batch()]
    if not whole:
        return fetched, Cost(0.0, 0.0, 0.0), None

    def collate(number: int) -> None:
        done[number] = fetched[number].then(plan.collate_fn, number)

    first, *others = whole
    watch = Watch()
    collate(first)
    wall, cpu = (seconds / sizes[first] for seconds in watch.read())
    num_threads = min(plan.num_workers, trial.num_cpus)
    cost = Cost(wall, cpu, wall / num_threads)
    error = None
    if found is not None and wall > _MINOR * (found[0].side_by_side + wall):
        rate = call_side_by_side(collate, others, min(num_threads, len(others)), [sizes[n] for n in others])
        if rate is not None:
            cost = _cost(wall, cpu, rate)
            failed = [number for number in others if not done[number].has_batch()]
            for number in failed:
                before = done[number].error
                collate(number)
                error = _describe(before) if done[number].has_batch() else error
    else:
        for number in others:
            collate(number)
    return [done[number] for number in sorted(done)], cost, error


def _sending_cost(outcomes: list[Outcome]) -> tuple[float, int] | None:
    """Seconds to take a batch apart, and its bytes; ``None`` if there is no batch."""
    for outcome in outcomes:
        if outcome.has_batch():
            began = perf_counter()
            try:
                encoded = encode(outcome.unwrap())
            except Exception:  # noqa: BLE001 - pickling is the user's code; if it is needed, its error will be told
                return 0.0, 0
            return perf_counter() - began, sum(memoryview(buffer).nbytes for buffer in encoded.buffers)
    return None


def _size(plan: Plan, outcome: Outcome) -> int:
    if not plan.is_batched or not outcome.has_batch():
        return 1
    try:
        return max(1, len(outcome.unwrap()))
    except TypeError:  # what __getitems__ gave is the collate function's business
        return 1


def _describe(error: BaseException | None) -> str:
    """In words: the exception would keep what its traceback holds."""
    return f"{type(error).__name__}: {error}"


def _as_they_are(samples: Any) -> Any:
    return samples
