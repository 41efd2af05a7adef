"""``PipelineStats`` and ``StageStats``: snapshots of a pipeline's statistics, as plain records.

The engine fills them from its counters; this file does the arithmetic (means, shares, intervals, the limiting stage).
``_document.py`` formats them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from os import PathLike
from typing import Any, Final, NamedTuple, TypeVar

from spdl._reports import printable, shown
from spdl.pipeline._info import StageInfo
from spdl.pipeline._records import EngineState, FailureOutcome, Place, Unit

R = TypeVar("R", "StageStats", "PipelineStats", "StageSamples", "Measured")

#: The fields of these records that are sums; all others are momentary values.
_SUMS: Final = {
    *("elapsed", "num_calls", "num_failures", "num_success", "num_dropped", "num_emitted", "num_substituted"),
    *("num_lost", "num_redealt", "busy", "starved", "blocked", "wall_time", "cpu_time", "num_cpu_samples", "occupied"),
    *("num_items", "consumer_wait"),
    *("num", "running", "gil", "lock", "io", "held", "cpu", "num_alone", "cpu_alone", "num_beside", "cpu_beside"),
    *("seconds", "own_cpu", "machine_cpu", "num_looks", "gil_held", "gil_elsewhere", "pool_cpu"),
    *("num_periods", "num_throttled"),
}


@cache
def _sums_of(record: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record) if each.name in _SUMS)


def _difference(later: R, earlier: R, **others: Any) -> R:
    """Return the record of the interval between two."""
    for name in _sums_of(type(later)):  # type: ignore[arg-type] # a class is hashable
        b, a = getattr(later, name), getattr(earlier, name)
        others[name] = None if a is None or b is None else b - a
    return replace(later, **others)


@dataclass(frozen=True, slots=True)
class ItemFailure:
    """An item on which a call failed.

    Attributes:
        stage: Stage that failed, as ``str(StageInfo)``.
        origin: Source position that the item came from: an ``int`` for one source item, ``(origin, k)`` for the
            k-th output of a generator, a tuple of origins for an aggregate.
        item_repr: Short ``repr`` of the item.
        error: Exception of the op, with its traceback.
        attempts: Number of attempts made.
        seconds: Time that the call took, with all attempts.
        outcome: What became of the item. ``"dropped"``; ``"substituted"``: the result of ``on_error`` replaced the
            output; ``"raised"``: it failed the pipeline.
    """

    stage: str
    origin: object
    item_repr: str
    error: BaseException
    attempts: int = 1
    seconds: float = 0.0
    outcome: FailureOutcome = "dropped"

    def __repr__(self) -> str:
        """As that of any dataclass, with the exception's in a length and with characters that can be shown."""
        values = (f"{name}={printable(shown(getattr(self, name)))}" for name in self.__slots__)
        return f"ItemFailure({', '.join(values)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStats:
    """Statistics of one stage, from the start of the pipeline (or of the interval) until the snapshot.

    The constructor takes counters and sums; means and shares are computed from them, so that they can be recomputed
    for an interval. All times are in seconds.

    Attributes:
        info: Identity of the stage.
        elapsed: Time that the record covers.
        num_calls: Number of finished calls, successful or failed. The end of a generator does not count as a call.
        num_failures: Number of calls that raised an ordinary exception.
        num_substituted: Number of those whose output was replaced by what ``on_error`` returned.
        num_success: Number of calls whose wall time is in ``wall_time``.
        num_dropped: Number of ``None`` results and of items dropped by hooks or aggregators.
        num_in_flight: Number of calls running at the time of the snapshot.
        num_emitted: Number of items put into the output channel.
        num_lost: Number of parts that calls left out of their results without failing: images that
            ``load_image_batch(..., strict=False)`` could not load, in calls on threads of the pipeline.
        num_redealt: Number of items of a region that were sent again because their worker died (``restart=True``).
        busy: Sum of the time of all calls, up to now for those that have not returned; with concurrency it grows faster
            than ``elapsed``.
        starved: Time with a free slot and no input.
        blocked: Time with work and no room in the output.
        wall_time: Sum of wall time over successful calls.
        cpu_time: Sum of thread CPU time over successful calls. For short calls it is extrapolated from a sample of the
            calls.
        num_cpu_samples: Number of calls that ``cpu_time`` covers; 0 if it cannot be measured.
        queue_len: Number of items in the output channel at the time of the snapshot.
        queue_capacity: Maximum number of items in the output channel.
        occupied: Time during which the output channel was not empty.
        failures: The newest failures, at most 16, oldest first.
        runs_on: Where its calls run: ``"source"`` (the iterator), ``"pool"`` (worker threads), ``"executor"`` (threads
            of an executor), ``"loop"`` (the event loop), ``"process"`` (other processes or interpreters), ``"region"``
            (its workers), ``"engine"`` (the thread that completes the call before), ``"sink"`` (the consumer).
        inputs: Ids of the stages that it reads from.
        num_workers: Number of threads or processes of its executor or region; 0: it has none, or their number is not
            known.
        wall_per_call: Mean wall time of a successful call; 0 before the first.
        cpu_per_call: Mean thread CPU time of a successful call; ``None`` if it was not measured.
        occupancy: Share of ``elapsed`` during which the output channel was not empty, 0 to 1.
        rate: Number of emitted items per second.
    """

    info: StageInfo
    elapsed: float
    num_calls: int = 0
    num_failures: int = 0
    num_success: int = 0
    num_dropped: int = 0
    num_in_flight: int = 0
    num_emitted: int = 0
    num_substituted: int = 0
    num_lost: int = 0
    num_redealt: int = 0
    busy: float = 0.0
    starved: float = 0.0
    blocked: float = 0.0
    wall_time: float = 0.0
    cpu_time: float = 0.0
    num_cpu_samples: int = 0
    queue_len: int = 0
    queue_capacity: int = 0
    occupied: float = 0.0
    failures: tuple[ItemFailure, ...] = ()
    runs_on: Place = "engine"
    inputs: tuple[str, ...] = ()
    num_workers: int = 0
    wall_per_call: float = field(init=False)
    cpu_per_call: float | None = field(init=False)
    occupancy: float = field(init=False)
    rate: float = field(init=False)

    def __post_init__(self) -> None:
        # A frozen dataclass has no other way to set a computed field.
        put = object.__setattr__
        put(self, "wall_per_call", self.wall_time / self.num_success if self.num_success else 0.0)
        put(self, "cpu_per_call", self.cpu_time / self.num_cpu_samples if self.num_cpu_samples else None)
        put(self, "occupancy", min(1.0, self.occupied / self.elapsed) if self.elapsed > 0 else 0.0)
        put(self, "rate", self.num_emitted / self.elapsed if self.elapsed > 0 else 0.0)

    def __sub__(self, earlier: "StageStats") -> "StageStats":
        """Return the interval since ``earlier``: subtracts sums, recomputes means, keeps momentary values.

        Raises:
            ValueError: The records belong to different stages, or ``earlier`` is the later one.
        """
        if not isinstance(earlier, StageStats):
            return NotImplemented
        if self.info != earlier.info:
            raise ValueError(f"cannot subtract statistics of different stages: {self.info} and {earlier.info}")
        _check_order(self.elapsed, earlier.elapsed, str(self.info))
        failures = tuple(failure for failure in self.failures if failure not in earlier.failures)
        return _difference(self, earlier, failures=failures)


class Moment(NamedTuple):
    """Counters since the start of the pipeline."""

    elapsed: float  #: s
    num_items: int  #: returned to the consumer
    consumer_wait: float  #: s
    num_emitted: tuple[int, ...]  #: of each stage


@dataclass(frozen=True, slots=True)
class StageSamples:
    """Numbers of observations of a thread inside a call of one stage, by what it was doing."""

    num: int = 0  #: all of them
    running: int = 0  #: on a CPU or waiting for one
    gil: int = 0  #: waiting for the GIL
    lock: int = 0  #: waiting for another lock
    io: int = 0  #: in another system call, asleep, or waiting for memory
    held: int = 0  #: holding the GIL
    cpu: float = 0.0  #: CPU seconds of the threads that belong to this stage alone
    num_alone: int = 0  #: measured calls that ran while no other call of the stage did
    cpu_alone: float = 0.0  #: their CPU seconds
    num_beside: int = 0  #: measured calls that ran beside others of the stage
    cpu_beside: float = 0.0

    def __sub__(self, earlier: "StageSamples") -> "StageSamples":
        return _difference(self, earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Everything measured since it began. All times are in seconds."""

    seconds: float  #: time that the CPU times cover
    own_cpu: float  #: CPU time of this process and its children
    machine_cpu: float | None  #: of all processes; ``None``: unknown
    cpu_limit: float  #: CPU seconds per second that this process may use
    machine_cpus: int
    num_periods: int = 0  #: periods of a quota of CPU time; 0: there is none, or they are unknown
    num_throttled: int = 0  #: of these, periods in which the quota was used up
    num_looks: int = 0  #: how often all threads were sampled; 0: they were not
    gil_held: int = 0  #: samples in which the GIL was held
    gil_elsewhere: int = 0  #: of these, by a thread that works for no stage
    pool_cpu: float = 0.0  #: CPU time of the threads that serve several stages
    has_gil: bool = True
    knows_gil: bool = False  #: whether threads that wait for the GIL can be distinguished from others
    knows_holder: bool = False
    stages: tuple[StageSamples, ...] = ()
    loop: StageSamples = StageSamples()

    def __sub__(self, earlier: "Measured") -> "Measured":
        """Return what was measured since ``earlier``, for the counters of the same interval."""
        stages = tuple(b - a for b, a in zip(self.stages, earlier.stages, strict=True))
        return _difference(self, earlier, stages=stages, loop=self.loop - earlier.loop)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStats:
    """Statistics of a pipeline, from its start (or that of the interval) until the snapshot.

    ``later - earlier`` of one pipeline gives the interval between them; ``str()`` gives a table of at most 100 columns,
    and ``f"{stats:80}"`` a narrower one.

    Attributes:
        elapsed: Time since the start, in seconds.
        state: State of the pipeline: ``"new"``, ``"running"``, ``"stopping"``, ``"ended"`` or ``"failed"``.
        num_threads: Number of worker threads.
        num_items: Number of items returned to the consumer.
        consumer_wait: Time that the consumer has waited for items, up to now if it is waiting, in seconds.
        stages: Statistics of every stage, in order of stage id.
        measured: What was measured for :meth:`Pipeline.verdict` so far; ``None``: nothing, because the run is short.
        since: Statistics at the moment when the measurement began; ``None``: it began with the interval.
        explain: Returns the name of the stage that the verdict names, or ``None`` if it names none or is unsure, and
            the sentence under the table. ``None``: there is no verdict.
        unit: What the consumer gets: ``"items"``, or ``"batches"`` if an aggregate made them.
        history: Counters at earlier calls of ``stats()`` and at reports, at most 512 moments; for rates over time.
    """

    elapsed: float
    state: EngineState
    num_threads: int
    num_items: int
    consumer_wait: float
    stages: tuple[StageStats, ...]
    measured: Measured | None = field(default=None, repr=False, compare=False)
    since: "PipelineStats | None" = field(default=None, repr=False, compare=False)
    explain: "Callable[[PipelineStats], tuple[str | None, str]] | None" = field(default=None, repr=False, compare=False)
    unit: Unit = "items"
    history: tuple[Moment, ...] = field(default=(), repr=False, compare=False)

    def __sub__(self, earlier: "PipelineStats") -> "PipelineStats":
        """Return the interval since ``earlier``; ``state``, ``num_threads`` and momentary values are those of ``self``.

        Raises:
            ValueError: The records belong to different pipelines, or ``earlier`` is the later one.
        """
        if not isinstance(earlier, PipelineStats):
            return NotImplemented
        if [stage.info for stage in self.stages] != [stage.info for stage in earlier.stages]:
            raise ValueError(
                f"cannot subtract statistics of different pipelines: {_names(self)} and {_names(earlier)}; "
                "take both records from one pipeline"
            )
        _check_order(self.elapsed, earlier.elapsed, "the pipeline")
        return _difference(
            self,
            earlier,
            stages=tuple(b - a for b, a in zip(self.stages, earlier.stages, strict=True)),
            measured=self.measured - earlier.measured if self.measured and earlier.measured else None,
            since=None,
            history=tuple(moment for moment in self.history if moment.elapsed >= earlier.elapsed),
        )

    @property
    def rate(self) -> float:
        """Number of items returned to the consumer per second."""
        return self.num_items / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def limiting_stage(self) -> StageStats | None:
        """The bottleneck of the pipeline, or ``None`` if no call has run.

        Stages after a bottleneck are starved, stages before it are blocked, and the bottleneck itself is neither. So
        the score of a stage is the share of time in which it had input and room for output,
        ``1 - (starved + blocked) / elapsed``, but at most ``busy / elapsed``, the time its calls ran, which excludes
        stages that had ended or were idle. The highest score wins; a tie (several stages waiting for threads) goes to
        the stage whose calls ran longest. Concurrency does not matter: a stage that lacks threads is the bottleneck
        although it has free slots.

        The last stage, the sink, represents the consumer: it is busy while it is not waiting, so its score is
        ``1 - consumer_wait / elapsed``, and 0 if there was nothing to take.

        If no score is above 0.5, as when the last call does not return and its stage has free slots, the result is the
        stage whose calls ran longest, including calls that have not returned.

        A stage can look busy because it waits for the GIL, which another stage holds. So the printed table marks the
        stage that :meth:`Pipeline.verdict` names, if that is known.
        """
        if self.elapsed <= 0 or not self.stages:
            return None
        last = len(self.stages) - 1
        if not any(stage.busy > 0 for stage in self.stages) and not self.num_items:
            # Calls that have not returned explain a stall better than the time that the consumer waited.
            at = max(range(last + 1), key=lambda k: (self.stages[k].num_in_flight, k))
            return self.stages[at] if self.stages[at].num_in_flight > 0 else None
        at = max(range(last + 1), key=lambda k: (self._score(k), self._busy(k)))
        if self._score(at) < 0.5:
            at = max(range(last + 1), key=lambda k: (min(self._busy(k), self.elapsed), self._busy(k)))
        return self.stages[at]

    def _explained(self) -> tuple[StageStats | None, str]:
        """Return the stage to mark and the sentence about it, from the verdict if there is one."""
        limiting = self.limiting_stage
        name, sentence = (None, "") if self.explain is None else self.explain(self)
        if limiting is None:
            return None, sentence
        named = [stage for stage in self.stages if stage.info.stage_name == name]
        return max(named, key=lambda stage: (stage is limiting, stage.busy), default=limiting), sentence

    def _busy(self, index: int) -> float:
        if index == len(self.stages) - 1:
            if not self.num_items and not self.stages[index].queue_len:
                return 0.0  # there was nothing to take
            return max(0.0, self.elapsed - self.consumer_wait)
        return self.stages[index].busy

    def _score(self, index: int) -> float:
        stage = self.stages[index]
        idle = 0.0 if index == len(self.stages) - 1 else (stage.starved + stage.blocked) / self.elapsed
        return min(max(0.0, 1.0 - idle), self._busy(index) / self.elapsed)

    def to_dict(self, prefix: str = "spdl/") -> dict[str, float]:
        """Return the statistics as a flat dictionary of names and numbers, for loggers such as W&B and TensorBoard.

        Numbers of the pipeline: ``elapsed``, ``num_threads``, ``num_items``, ``rate`` and ``consumer_wait``. Numbers of
        each stage, with its name in front, such as ``decode/rate``: ``num_calls``, ``num_failures``,
        ``num_substituted``, ``num_lost``, ``num_dropped``, ``num_in_flight``, ``num_emitted``, ``busy``, ``starved``,
        ``blocked``, ``wall_per_call``, ``cpu_per_call`` (if it was measured), ``queue_len``, ``queue_capacity``,
        ``occupancy`` and ``rate``. In the name of a stage, only letters, digits and ``_-.`` remain. Stages of the same
        name get their numbers: ``decode.1`` and ``decode.4``.

        .. code-block:: python

            wandb.log(pipeline.stats().to_dict())

        Args:
            prefix: Prefix of all names.
        """
        from spdl.pipeline._observe._document import flat  # imported late, as all that not every program needs

        return flat(self, prefix)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return all statistics as JSON text, and write it to a file if ``path`` is given.

        ``spdl report`` makes an HTML page from such files.
        """
        import json  # imported late, as all that not every program needs

        from spdl.pipeline._observe._document import document_of, written

        return written(json.dumps(document_of(self)), path)

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return a report as an HTML page, and write it to a file if ``path`` is given.

        It shows the graph, the limiting stage with the reason, rates and waits over time, the statistics of each stage,
        and the newest failures. The page needs no other file and no network. Rates over time are computed between
        calls of ``stats()`` and between the reports of ``build(report_stats_interval=)``.
        """
        from spdl.pipeline._observe._document import document_of, written
        from spdl.pipeline._observe._html import page

        return written(page([document_of(self)]), path)

    def _repr_html_(self) -> str:
        from spdl.pipeline._observe._document import document_of
        from spdl.pipeline._observe._html import fragment

        return fragment(document_of(self))

    def __str__(self) -> str:
        return self._table()

    def __format__(self, spec: str) -> str:
        """Return the table with at most the given number of columns: ``f"{stats:80}"``."""
        if not spec:
            return str(self)
        if not (spec.isascii() and spec.isdecimal() and int(spec) > 0):
            raise ValueError(f"the format of {type(self).__name__} is a number of columns, as in '80', got {spec!r}")
        return self._table(int(spec))

    def _table(self, *width: int) -> str:
        from spdl.pipeline._observe._document import document_of, table

        return table(document_of(self), *width)


def _names(stats: PipelineStats) -> str:
    return "[" + ", ".join(str(stage.info) for stage in stats.stages) + "]"


def _check_order(later: float, earlier: float, what: str) -> None:
    if later < earlier:
        raise ValueError(
            f"cannot subtract statistics of {what}: the left record ends {earlier - later:.6g} s before the right one; "
            "write later - earlier"
        )
