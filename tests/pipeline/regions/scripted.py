"""Workers of a region that say what a test tells them to say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from spdl.pipeline import WorkerDiedError
from spdl.pipeline._engine._region._workers import Died, Event, Ready, Report, Then, Told
from spdl.pipeline.defs import ExecutorConfig

#: What a worker answers to the positions of a transfer: reports, after the last of which it dies if that is ``None``.
Script = Callable[[Sequence[int]], Sequence[Report | None]]


class ScriptedWorkers:
    """One worker, replaced as often as it dies."""

    num_workers = 1
    may_resize = False
    may_replace = True
    waits_until_ready = True

    def __init__(self, script: Script) -> None:
        self.script = script
        self.events: SimpleQueue[Event | None] = SimpleQueue()
        self.dead: set[int] = set()  # generations; written by the thread that sends

    def start(self) -> None:
        self.events.put(Ready(0))

    def replace(self, worker: int, done: Sequence[int]) -> None:
        self.start()

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> list[tuple[int, Exception]]:
        if generation in self.dead:
            return []
        if transfer:
            for report in self.script([position for position, _ in transfer]):
                if report is None:
                    self.dead.add(generation)
                    self.events.put(Died(0, WorkerDiedError("worker 0 died")))
                else:
                    self.events.put(Told(0, [], report, Then.NOTHING))
        if then is not Then.NOTHING and generation not in self.dead:
            self.events.put(Told(0, [], report_of(0), then))
        return []

    def wait(self) -> list[Event]:
        event = self.events.get()
        return [] if event is None else [event]

    def wake(self) -> None:
        self.events.put(None)

    def stop(self, timeout: float) -> list[int]:
        return []

    def kill(self) -> None:
        pass

    def describe(self, worker: int) -> str:
        return f"worker {worker}"


@dataclass(frozen=True)
class ScriptedWorkersConfig(ExecutorConfig):
    """Target of a region with such a worker."""

    script: Script = lambda positions: []

    def _build(self, spec: Any) -> ScriptedWorkers:
        return ScriptedWorkers(self.script)


def report_of(num_taken: int, **fields: Any) -> Report:
    """Return a report without outputs."""
    empty: dict[str, Any] = {"consumed": [], "failures": [], "num_dropped": 0, "num_calls": 0, "busy": 0.0}
    return Report(num_taken, [], **empty | fields)
