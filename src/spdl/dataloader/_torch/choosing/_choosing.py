"""``workers="auto"``: choose threads or processes by the cost of the first batches.

Threads are best if loading a sample waits or releases the GIL; they share the dataset and start at once. Processes are
best if loading runs Python code; each batch must then be sent between processes. The cost of a sample in threads side
by side shows how much of it runs in parallel: with a serial share ``s``, ``n`` threads take ``s + (1 - s) / n`` of the
time of one (Amdahl, "Validity of the single processor approach", 1967).
"""

import logging
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from spdl._cpus import usable_cpus
from spdl._processes._start import context_of
from spdl._reports import add_note, log, notes_of, text_of
from spdl.dataloader._torch._arguments import Plan, Run
from spdl.dataloader._torch._fetching import DrawnSeed, draw_base_seed
from spdl.dataloader._torch._thread_bound import Bound, find_bound
from spdl.dataloader._torch.processes._processes import ProcessRun
from spdl.dataloader._torch.processes._worker_pool import Starting
from spdl.dataloader._torch.resuming._progress import Progress
from spdl.dataloader._torch.threads._pieces import Outcome
from spdl.dataloader._torch.threads._threads import ThreadRun
from spdl.pipeline import PipelineStateError, WorkerDiedError
from spdl.resume._values import is_stateful

from ._local import LocalLoader, ResumedIndices
from ._measuring import Cost, Measurement, measure

_LOG = logging.getLogger("spdl.dataloader")

#: CPU seconds to send a batch from a worker process, without its buffers: two messages and wake-ups. The second number
#: is the part in the loader's own process. Measured with empty batches.
_MESSAGE: Final = 4e-4
_RECEIVED: Final = 1.5e-4
#: Bytes per second at which a worker copies buffers to shared memory. The loader reads them in place.
_COPIED_PER_SECOND: Final = 3e9
#: Seconds for which a batch holds the GIL in threads: two hand-offs and the engine's own work.
_HAND_OFF: Final = 1e-4
#: Seconds until worker processes are ready, averaged over the first start and later ones.
_START: Final = 1.0
#: Seconds until worker processes are ready, for later starts only.
_LATER_START: Final = 0.3
#: Share of the threads' expected time that processes must stay below to be chosen. Threads are lighter, and short
#: measurements of samples that do not need the GIL vary by this much.
_MUST_SAVE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of ``workers="auto"`` for a loader, and its reason. ``str()`` is the logged line.

    Attributes:
        workers: The chosen kind of workers.
        reason: Reason of the choice, as text.
        measured: Cost of the first batches; ``None`` if nothing was measured.
        thread_seconds: Expected seconds per sample with threads; ``None`` if nothing was measured.
        process_seconds: Expected seconds per sample with processes, without their start.
        may_change: Whether only the start time was against processes, so that a later epoch may use them.
        is_alone: Whether one thread loads, because several cannot share the dataset and processes cannot get it.
    """

    workers: Literal["thread", "process"]
    reason: str
    measured: Measurement | None = None
    thread_seconds: float | None = None
    process_seconds: float | None = None
    may_change: bool = False
    is_alone: bool = False

    def plan_of(self, plan: Plan) -> Plan:
        """``plan`` with as many workers as the choice allows."""
        return replace(plan, num_workers=1) if self.is_alone else plan

    def __str__(self) -> str:
        text = f"workers='auto' chose '{self.workers}': {self.reason}"
        measured = self.measured
        if measured is None or self.thread_seconds is None or self.process_seconds is None:
            return text
        fetch = measured.fetch
        return (
            f"{text} ({measured.num_samples} samples measured: one takes {_ms(fetch.wall)} alone, {_ms(fetch.cpu)} of "
            f"it on a CPU, and {_ms(fetch.side_by_side)} with {measured.num_threads} threads side by side; collating, "
            f"{_ms(measured.collate.wall)}; expected per sample: {_ms(self.thread_seconds)} with threads, "
            f"{_ms(self.process_seconds)} with processes)"
        )


#: Callback that gets a choice and its run. Called again with their replacements if the choice turns out impossible.
OnChoice = Callable[[Choice, Run], None]


def choose_without_measuring(plan: Plan, num_cpus: int) -> Choice | None:
    """The choice if the plan determines it; ``None`` if it must be measured."""
    if plan.worker_init_fn is not None:
        return Choice("process", "worker_init_fn is for worker processes")
    if plan.multiprocessing_context is not None:
        return Choice("process", "multiprocessing_context is for worker processes")
    if plan.is_iterable:
        return Choice("process", "an iterable dataset is iterated in each worker process, as torch does it")
    if is_stateful(plan.dataset):
        return Choice("process", "the dataset has a state, and each worker process keeps its own")
    bound = _find_bound(plan)
    if bound is not None and not bound.is_serial:
        if bound.is_number:
            return Choice(
                "thread", f"{bound}, which threads and processes cannot share, so one thread loads", is_alone=True
            )
        return Choice("process", f"threads cannot share what the dataset holds: {bound}")
    if num_cpus < 2:
        return Choice("thread", "there is one CPU, which processes would share as threads do")
    if plan.num_workers < 2:
        return Choice("thread", "one worker loads one sample at a time either way")
    return None


def _find_bound(plan: Plan) -> Bound | None:
    return find_bound(dataset=plan.dataset, collate_fn=plan.collate_fn)


def decide(measured: Measurement, plan: Plan, num_cpus: int, num_batches: int | None) -> Choice:
    """Choose by the measurement.

    Args:
        measured: Cost of the first batches.
        plan: Plan of the epoch.
        num_cpus: Number of threads or processes that can run at once.
        num_batches: Number of batches in an epoch; ``None``: unknown, and the start of processes does not count.
    """
    parts = measured.fetch, measured.collate
    size = measured.batch_size
    in_threads = sum(_in_threads(part, plan.num_workers, measured.num_threads) for part in parts) + _HAND_OFF / size
    num_running = min(plan.num_workers, num_cpus)
    in_processes = sum(max(part.cpu / num_running, part.wall / plan.num_workers) for part in parts)
    # Pickling there and unpickling here cost about the same; here one thread does it.
    work = 2 * measured.encode + measured.batch_bytes / _COPIED_PER_SECOND + _MESSAGE
    in_processes = max(in_processes + work / size / num_running, (measured.encode + _RECEIVED) / size)
    num_samples = None if num_batches is None else num_batches * size
    start = 0.0 if num_samples is None or plan.persistent_workers else _START / max(num_samples, 1)
    may_change = False
    error = measured.thread_error
    if error is not None:
        workers: Literal["thread", "process"] = "process"
        reason = f"loading works in one thread, but failed in several side by side: {error}"
    elif measured.bound is not None:
        workers = "process"
        reason = f"threads cannot share what the dataset opens: {measured.bound}"
    elif in_processes + start < _MUST_SAVE * in_threads:
        workers = "process"
        reason = "samples hold the GIL, so threads would wait for each other"
    elif in_processes < _MUST_SAVE * in_threads:
        workers, reason = "thread", "an epoch is too short for the start of processes"
        may_change = True
    else:
        workers, reason = "thread", "threads load about as fast, and start at once"
        if in_threads < _MUST_SAVE * in_processes:
            reason = (
                "threads are faster: samples need the GIL for less time than sending batches between processes takes"
            )
    return Choice(workers, reason, measured, in_threads, in_processes, may_change)


def reconsider(choice: Choice, num_epochs: int, num_batches: int) -> Choice:
    """Choose processes once threads have lost as much time as starting processes takes.

    However many epochs follow, the time lost is at most twice the minimum. Each epoch starts its own processes, so it
    must save more time than a start takes when the fork server is already running.
    Source: the ski rental problem; Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching", 1988.

    Args:
        choice: Current choice, threads.
        num_epochs: Number of epochs loaded with it.
        num_batches: Number of batches in an epoch.
    """
    measured, in_threads, in_processes = choice.measured, choice.thread_seconds, choice.process_seconds
    if not choice.may_change or measured is None or in_threads is None or in_processes is None:
        return choice
    lost = num_batches * measured.batch_size * (in_threads - in_processes)
    if lost <= _LATER_START or lost * num_epochs <= _START:
        return choice
    reason = f"after {num_epochs} epochs with threads, which cost more than the start of processes"
    return replace(choice, workers="process", reason=reason, may_change=False)


def _in_threads(part: Cost, num_workers: int, num_threads: int) -> float:
    """Expected seconds per sample with ``num_workers`` threads, if it was measured with ``num_threads``."""
    if num_workers <= num_threads:
        return part.side_by_side
    # With more threads than were measured, more can wait at once, but no more can run or hold the GIL.
    return max(min(part.side_by_side, part.cpu), part.wall / num_workers)


def begin(plan: Plan, on_choice: OnChoice, progress: Progress) -> Iterator[Any]:
    """Begin the first epoch: load the first batches in this thread and choose the workers for the rest."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A worker imports the script that started it, which has no __main__ guard. Starting processes is refused here
        # with an error that says so; threads would silently run the whole script again.
        return ProcessRun(plan).iterate(progress)
    num_cpus = usable_cpus()
    choice = choose_without_measuring(plan, num_cpus)
    if choice is not None:
        plan = choice.plan_of(plan)
        is_free = plan.multiprocessing_context is None and plan.worker_init_fn is None and not plan.is_iterable
        bound = _find_bound(plan) if is_free and choice.workers == "process" else None
        is_bound = bound is not None and not bound.is_serial
        if is_bound:
            # Forked workers would share it, as threads would.
            plan = replace(plan, multiprocessing_context=context_of(None))
        run = _make(choice, plan)
        try:
            batches = run.iterate(progress)
        except Exception as exc:
            if is_bound:
                add_note(exc, _advice(str(bound)))
            raise
        _announce(on_choice, choice, run)
        return batches
    assert plan.indices is not None
    indices = ResumedIndices(plan.indices)
    base_seed = draw_base_seed(plan.generator)
    indices.begin_again()
    local = LocalLoader(plan, base_seed)
    measured, outcomes = measure(local, indices, num_cpus)
    if measured is None:
        bound = _find_bound(local.plan)
        if bound is None or bound.is_serial:
            choice = Choice("thread", "no sample could be measured")
        else:
            choice = Choice("process", f"no sample could be measured, and threads cannot share {bound}")
    else:
        choice = decide(measured, plan, num_cpus, length_of(indices))
    return _Continued(plan, choice, indices, base_seed, local, outcomes, on_choice, progress)


def begin_or_change(
    choice: Choice | None, num_epochs: int, plan: Plan, on_choice: OnChoice, progress: Progress
) -> Iterator[Any] | None:
    """Begin an epoch if it is the first, or if the choice of those before it changes; else return ``None``."""
    if choice is None:
        return begin(plan, on_choice, progress)
    if choice.may_change and (num_batches := length_of(plan.indices)) is not None:
        changed = reconsider(choice, num_epochs, num_batches)
        if changed is not choice:
            return change(plan, changed, on_choice, progress)
    return None


def change(plan: Plan, choice: Choice, on_choice: OnChoice, progress: Progress) -> Iterator[Any]:
    """Begin a later epoch with a new choice of ``reconsider``."""
    assert plan.indices is not None
    indices = ResumedIndices(plan.indices)
    base_seed = draw_base_seed(plan.generator)
    indices.begin_again()
    return _Continued(plan, choice, indices, base_seed, LocalLoader(plan, base_seed), [], on_choice, progress)


class _Continued(Iterator[Any]):
    """Iterator over the measured batches and then those of the run.

    Until worker processes are ready, which takes seconds the first time, this loads batches in the consumer's thread:
    if loading holds the GIL, threads would be no faster. If the workers cannot be started, threads load the rest.
    """

    def __init__(
        self,
        plan: Plan,
        choice: Choice,
        indices: ResumedIndices,
        base_seed: int,
        local: LocalLoader,
        outcomes: list[Outcome],
        on_choice: OnChoice,
        progress: Progress,
    ) -> None:
        # With a context, a dataset that cannot be pickled is an error; without one, workers might be forked, and
        # threads are better than that.
        context = context_of(None) if choice.workers == "process" else None
        self._plan = replace(plan, indices=indices, generator=DrawnSeed(base_seed), multiprocessing_context=context)
        self._choice = choice
        self._indices = indices
        self._local: LocalLoader | None = local  # until workers load: it may hold open files
        self._progress = progress
        self._num_loaded = len(outcomes)
        self._num_taken = 0  # of the batches loaded here
        self._shift = 0  # number of the first batch of the run
        self._outcomes = outcomes[::-1]
        self._on_choice = on_choice
        self._starting: Starting | None = None
        self._batches: Iterator[Any] | None = None
        if choice.workers == "thread":
            self._continue_in_threads()
            return
        try:
            self._processes = ProcessRun(self._plan)
            self._starting = Starting(self._plan, base_seed, progress)
        except Exception as exc:  # noqa: BLE001 - it is logged; threads do not need what failed
            self._resort_to_threads(exc)
        else:
            on_choice(choice, self._processes)

    def _continue_in_threads(self) -> None:
        self._local = None
        run = ThreadRun(self._plan)
        self._batches = run.iterate(self._shifted())
        self._indices.end_epoch()
        log(_LOG, logging.INFO, "%s", self._choice)
        self._on_choice(self._choice, run)

    def _resort_to_threads(self, error: Exception) -> None:
        measured = self._choice.measured
        if measured is not None and measured.thread_error is not None:
            add_note(error, _advice(f"it failed in several side by side: {measured.thread_error}"))
            raise error
        if measured is not None and measured.bound is not None and not measured.bound.is_serial:
            add_note(error, _advice(str(measured.bound)))
            raise error
        why = " ".join(" ".join([text_of(error), *notes_of(error)]).split())
        reason = f"processes would be faster, but cannot be started: {why}"
        self._choice = replace(self._choice, workers="thread", reason=reason, may_change=False)
        self._continue_in_threads()

    def _continue_in_processes(self, starting: Starting) -> None:
        self._starting = None
        try:
            pool = starting.pool()
        except PipelineStateError:
            raise
        except Exception as exc:
            if _was_killed(exc):
                raise  # the code that killed the worker must not run in this process
            self._resort_to_threads(exc)
            return
        self._local = None
        self._batches = self._processes.iterate_with(pool, self._shifted())
        self._indices.end_epoch()
        log(_LOG, logging.INFO, "%s", self._choice)

    def _shifted(self) -> Progress:
        """The progress, for a run whose first batch is the one after those loaded here."""
        self._shift = self._num_loaded
        self._progress.first += self._shift
        return self._progress

    def _count(self) -> None:
        """Record that the consumer takes a batch that was loaded here."""
        self._progress.take(self._num_taken - self._shift)
        self._num_taken += 1

    def __next__(self) -> Any:
        starting = self._starting
        if starting is not None and starting.is_done():
            self._continue_in_processes(starting)
            starting = None
        if self._outcomes:
            self._count()
            return self._outcomes.pop().unwrap()
        if starting is not None and self._local is not None:
            drawn = self._indices.draw()
            if drawn is not None:
                self._num_loaded += 1
                outcome = self._local.load(drawn.indices, self._num_loaded - 1)
                self._count()
                return outcome.unwrap()
            self._continue_in_processes(starting)  # nothing is left to load, but the next epoch may use them
        if self._batches is None:
            raise StopIteration
        return next(self._batches)

    def close(self) -> None:
        self._outcomes.clear()
        self._local = None
        starting, self._starting = self._starting, None
        if starting is not None:
            log(_LOG, logging.INFO, "%s", self._choice)
            starting.abandon()
        batches, self._batches = self._batches, None
        close = getattr(batches, "close", None)
        if callable(close):
            close()


def _advice(why: str) -> str:
    return (
        f"workers='auto' chose processes, as threads cannot load this dataset ({why}). Open such objects in "
        "__getitem__ on first use, and keep them out of the pickled dataset (__getstate__), or load with num_workers=0"
    )


def _was_killed(error: Exception) -> bool:
    """Whether a signal ended the worker: a crash, or the system. Import errors of the main script are normal exits."""
    return isinstance(error, WorkerDiedError) and (error.exit_code is None or error.exit_code < 0)


def _make(choice: Choice, plan: Plan) -> Run:
    if choice.workers == "thread":
        return ThreadRun(plan)
    return ProcessRun(plan)


def _announce(on_choice: OnChoice, choice: Choice, run: Run) -> None:
    log(_LOG, logging.INFO, "%s", choice)
    on_choice(choice, run)


def length_of(indices: Any) -> int | None:
    """Number of index batches; ``None`` if the sampler has no length."""
    with suppress(TypeError):
        return len(indices)
    return None


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
