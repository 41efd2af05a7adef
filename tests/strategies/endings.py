"""Ways to end a pipeline, at points defined by counts, not by time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

from spdl.pipeline import PipelineFailure

from .graphs import Graph
from .items import Value
from .running import Run
from .watch import BOUND, bounded

__all__ = ["Ending", "Observed", "check_all_closed", "endings", "run_until"]

Kind = Literal["exhaust", "stop", "break", "raise", "drop", "cancel", "op"]


@dataclass(frozen=True)
class Ending:
    """How a case ends.

    ``exhaust``: the consumer reads to the end. ``stop``, ``break``, ``raise``, ``drop`` (of the handle), ``cancel``
    (of the consumer's coroutine): after ``after`` items. ``op``: another thread stops when the ``after``-th call of an
    op has begun; a sync call then returns, an async call waits for ever.
    """

    kind: Kind
    after: int = 0


@dataclass
class Observed:
    """The outputs and the error that the consumer saw."""

    epochs: list[list[Value]] = field(default_factory=lambda: [[]])
    failure: PipelineFailure | None = None

    @property
    def outputs(self) -> list[Value]:
        return [value for epoch in self.epochs for value in epoch]


@st.composite
def endings(draw: st.DrawFn, *kinds: Kind) -> Ending:
    kind = draw(st.sampled_from(kinds or ("stop", "break", "raise", "drop", "cancel", "op")))
    return Ending(kind, draw(st.integers(0, 12)))


class _BodyError(Exception):
    pass


def run_until(graph: Graph, ending: Ending, *, look: Callable[[Run], None] | None = None) -> tuple[Run, Observed]:
    """Build ``graph``, read it until ``ending``, and read the rest after it.

    Args:
        graph: The graph to build.
        ending: The time and the way of the end.
        look: A function called after every item.
    """
    seen = Observed()
    run = _Stopper(graph, ending).run if ending.kind == "op" else Run(graph)
    try:
        _WAYS[ending.kind](run, seen, ending.after, look or (lambda _: None))
    except PipelineFailure as exc:
        seen.failure = exc
    finally:
        run.close()
    assert not run.problems, run.problems
    return run, seen


def _next(run: Run, seen: Observed, look: Callable[[Run], None]) -> bool:
    """Read one item, or the end of an epoch. Return False at the end of the stream."""
    with bounded("get_item()"):
        try:
            value = run.pipeline.get_item(timeout=BOUND)
        except EOFError:
            if not run.graph.continuous or run.pipeline.stats().state != "running":
                return False
            seen.epochs.append([])
            return True
    run.taken(value)
    seen.epochs[-1].append(value)
    look(run)
    return True


def _rest(run: Run, seen: Observed, look: Callable[[Run], None]) -> None:
    while _next(run, seen, look):
        pass


def _exhaust(run: Run, seen: Observed, after: int, look: Callable[[Run], None]) -> None:
    """Read to the end; with a continuous source, three epochs."""
    while _next(run, seen, look):
        if len(seen.epochs) > 3:
            seen.epochs.pop()
            break
    _stop(run, seen, 0, look, read=False)


def _stop(run: Run, seen: Observed, after: int, look: Callable[[Run], None], *, read: bool = True) -> None:
    if read:
        run.pipeline.start(timeout=BOUND)
        for _ in range(after):
            if not _next(run, seen, look):
                break
    with bounded("stop()"):
        run.pipeline.stop(timeout=BOUND)
    if read:
        _rest(run, seen, look)
    run.pipeline.stop()


def _break(run: Run, seen: Observed, after: int, look: Callable[[Run], None]) -> None:
    with bounded("auto_stop()"), run.pipeline.auto_stop(timeout=BOUND):
        for number, value in enumerate(run.pipeline, 1):
            run.taken(value)
            seen.epochs[-1].append(value)
            if number > after:
                break


def _raise(run: Run, seen: Observed, after: int, look: Callable[[Run], None]) -> None:
    error = _BodyError()
    try:
        with bounded("auto_stop()"), run.pipeline.auto_stop(timeout=BOUND):
            for _ in range(after):
                if not _next(run, seen, look):
                    break
            raise error
    except _BodyError as exc:
        if exc is not error:
            raise AssertionError("the body's exception was replaced") from exc


def _drop(run: Run, seen: Observed, after: int, look: Callable[[Run], None]) -> None:
    before = set(threading.enumerate())
    run.pipeline.start(timeout=BOUND)
    try:
        for _ in range(after):
            if not _next(run, seen, look):
                break
    finally:
        mine = {thread for thread in threading.enumerate() if thread not in before}
        run.drop()
        gc.collect(0)
        for thread in mine:
            # An executor's threads end when it is shut down, not now.
            if thread.name.startswith("spdl"):
                thread.join(BOUND)


def _cancel(run: Run, seen: Observed, after: int, look: Callable[[Run], None]) -> None:
    """Cancel a coroutine that reads, continue with another one, then without any."""

    is_over = False

    async def read(enough: asyncio.Event) -> None:
        nonlocal is_over
        async for value in run.pipeline:
            run.taken(value)
            seen.epochs[-1].append(value)
            if len(seen.outputs) >= after:
                enough.set()
        if run.graph.continuous and run.pipeline.stats().state == "running":
            seen.epochs.append([])
        else:
            is_over = True

    async def main() -> None:
        for _ in range(2):
            if is_over:
                break
            enough = asyncio.Event()
            task = asyncio.create_task(read(enough))
            waiter = asyncio.create_task(enough.wait())
            await asyncio.wait({task, waiter}, timeout=BOUND, return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            waiter.cancel()
            _, pending = await asyncio.wait({task, waiter}, timeout=BOUND)
            if pending:
                raise TimeoutError("a coroutine that reads cannot be cancelled")
            if not task.cancelled() and task.exception() is not None:
                raise task.exception()  # type: ignore[misc]

    with bounded("async for"):
        asyncio.run(main())
    _stop(run, seen, 0, look, read=False)
    _rest(run, seen, look)


class _Stopper:
    """Stops the pipeline from its own thread when an op requests it."""

    def __init__(self, graph: Graph, ending: Ending) -> None:
        self.after = ending.after + 1
        self.begun = threading.Event()
        self.thread: threading.Thread | None = None
        self.run = Run(graph, self.on_op, self.finish)

    def on_op(self, number: int) -> bool:
        if number != self.after:
            return False
        self.thread = threading.Thread(target=self.stop)
        self.thread.start()
        self.begun.wait(BOUND)
        return True

    def stop(self) -> None:
        self.begun.set()
        try:
            self.run.pipeline.stop(timeout=BOUND)
        except (PipelineFailure, TimeoutError) as exc:
            self.error = exc

    error: Exception | None = None

    def finish(self) -> None:
        if self.thread is not None:
            self.thread.join(BOUND)
        if isinstance(self.error, TimeoutError):
            with bounded("stop()"):
                raise self.error


def _op(run: Run, seen: Observed, after: int, look: Callable[[Run], None]) -> None:
    try:
        while _next(run, seen, look):
            if len(seen.epochs) > 20:  # the graph drops everything, or its sources are empty
                break
    finally:
        run.finish()
        with bounded("stop()"):
            run.pipeline.stop(timeout=BOUND)


_WAYS: dict[Kind, Callable[[Run, Observed, int, Callable[[Run], None]], None]] = {
    "exhaust": _exhaust,
    "stop": _stop,
    "break": _break,
    "raise": _raise,
    "drop": _drop,
    "cancel": _cancel,
    "op": _op,
}


def check_all_closed(run: Run) -> None:
    """Nothing runs, every generator was left, and every source was closed as it is told."""
    assert not +run.running, f"ops still run: {run.running}"
    assert run.num_opened == run.num_closed, "a generator of an op was not closed"
    for source in run.sources:
        if source.source.kind == "iterator":
            # Closed on early end only: not when it is used up, and not needed when it raised.
            unfinished = source.num_opened - source.num_exhausted - source.num_raised
            assert unfinished <= source.num_closed <= unfinished + source.num_raised, vars(source)
        else:
            assert source.num_closed == source.num_opened, vars(source)
