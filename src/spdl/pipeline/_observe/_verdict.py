"""``Verdict``: which stage limits a pipeline, why, and what to change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from spdl.pipeline._records import Unit

Cause: TypeAlias = Literal["consumer", "gil", "cpu", "io", "cap", "source", "oversubscribed", "memory", "unsure"]

_NO_ARGUMENTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StageShares:
    """How the calls of one stage spent their time: shares of their wall time, 0 to 1, which add up to 1.

    Attributes:
        stage: Name of the stage.
        cpu: On a CPU.
        queue: Ready to run, waiting for a CPU.
        gil: Waiting for the GIL.
        lock: Waiting for another lock, for threads of native code, or for another process.
        io: Waiting for I/O, asleep, or awaiting.
        held: Share of the time of the whole pipeline, not of the calls, in which this stage held the GIL; ``None``
            where it is unknown.
    """

    stage: str
    cpu: float
    queue: float
    gil: float
    lock: float
    io: float
    held: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What limits a pipeline. ``str()`` gives two or three sentences.

    Attributes:
        stage: Name of the stage to look at; ``None`` if no stage of the pipeline is to blame.
        cause: Why it is slow:

            - ``"consumer"``: the consumer takes items more slowly than the pipeline makes them.
            - ``"gil"``: Python code of this stage keeps the GIL, and other threads wait for it.
            - ``"cpu"``: all CPUs that the process may use are busy.
            - ``"oversubscribed"``: the same, with many more threads than CPUs.
            - ``"io"``: calls wait for disk, network or a timer, and all slots of the stage are in use.
            - ``"cap"``: all slots of the stage are in use while CPUs are free: the limit is the number of calls.
            - ``"source"``: the iterator of the source is slow.
            - ``"memory"``: calls take more CPU time the more of them run: they share caches or memory bandwidth.
            - ``"unsure"``: the measurement does not show the cause; ``advice`` says what is missing.
        reason: What was measured, in one sentence.
        advice: The one change to make, in terms of the user's arguments.
        arguments: New values of the arguments that the advice names, such as ``{"concurrency": 8}``.
        rate: Items or batches per second that the consumer gets.
        predicted_rate: The rate after that change, which is the second lowest bound; ``rate`` if no argument
            helps. ``None`` if the cause is unknown.
        next_bound: What will limit the rate after the change; ``None`` if nothing that was measured would.
        shares: How the calls of each stage spent their time.
        seconds: Length of the measurement.
        is_estimated: Whether the shares are estimated from CPU times, because threads were not sampled.
        is_probable: Whether other processes use so much of the machine that the shares, which are those of this
            machine now, only make the cause probable.
        unit: What the rates count: ``"items"``, or ``"batches"`` if the pipeline emits those.
    """

    stage: str | None
    cause: Cause
    reason: str
    advice: str
    rate: float
    predicted_rate: float | None
    next_bound: str | None
    shares: tuple[StageShares, ...] = ()
    arguments: Mapping[str, int] = field(default_factory=lambda: _NO_ARGUMENTS)
    seconds: float = 0.0
    is_estimated: bool = False
    is_probable: bool = False
    unit: Unit = "items"

    @property
    def sentence(self) -> str:
        """One sentence, as ``str(pipeline.stats())`` shows it."""
        return f"{'estimated: ' if self.is_estimated else ''}{'probably, ' if self.is_probable else ''}{self.reason}."

    def __str__(self) -> str:
        lines = [self.sentence, f"Do: {self.advice}."]
        if self.predicted_rate is not None and self.predicted_rate > self.rate:
            bound = f" (next bound: {self.next_bound})" if self.next_bound else ""
            lines[1] += f" Expected {as_rate(self.predicted_rate, self.unit)}{bound}."
        elif self.cause == "consumer" and self.next_bound:
            lines[1] += f" The next bound would be {self.next_bound}."
        return "\n".join(lines)


def as_rate(rate: float, unit: Unit) -> str:
    """Format a rate for display, with three digits."""
    return f"{rate:.0f} {unit}/s" if rate >= 100 else f"{rate:.3g} {unit}/s"
