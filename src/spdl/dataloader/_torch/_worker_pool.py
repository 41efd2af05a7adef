"""``WorkerPool``: the worker processes of one loader, as the consumer's thread sees them. It starts no thread."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from contextlib import ExitStack, suppress
from multiprocessing.context import BaseContext
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from spdl._processes._child import Child, wait_any
from spdl._processes._main_module import guard_note
from spdl._processes._start import context_of, is_threaded, warm_up
from spdl._processes._template import find_template
from spdl._processes._transport import NOTHING
from spdl._processes._transport._arena import default_limit
from spdl._reports import add_note
from spdl.pipeline import WorkerDiedError, WorkerTimeoutError

from ._messages import FromWorker, ToWorker
from ._payload import ForkedPayload, SharedPayload, UnpicklablePayloadError
from ._process_main import StartLimit, WorkerSpec, serve

if TYPE_CHECKING:
    from spdl._processes._transport import Frame

    from ._plan import Plan

__all__ = ["WorkerPool", "pack", "prepare_start"]

#: What the fork server imports, so that no worker has to.
_PRELOADED: Final = "spdl.dataloader._torch._preloaded"
#: Least shared memory for the batches of one worker, whatever its share of the whole.
_LEAST: Final = 64 << 20
#: Seconds that workers may take to start before that counts as time for a batch.
_START: Final = 60.0
_numbers: Final = itertools.count(1)


def prepare_start(mp_context: str | BaseContext | None) -> None:
    """Have the fork server, where there will be one, start and import torch while the caller does other things.

    Raises:
        ValueError: There is no such start method here.
    """
    warm_up(mp_context, _PRELOADED)


def pack(plan: Plan) -> SharedPayload | None:
    """What the workers of ``plan`` get, pickled; ``None`` if they are forked, and get it as it is.

    Raises:
        UnpicklablePayloadError: Dataset, collate function or worker_init_fn cannot be pickled.
        ValueError: There is no such start method here.
    """
    if context_of(plan.mp_context).get_start_method() == "fork":
        return None
    return SharedPayload(_parts(plan))


def _parts(plan: Plan) -> dict[str, Any]:
    # The dataset last: it may be large, and whether the others pickle is soon known.
    return {"collate_fn": plan.collate_fn, "worker_init_fn": plan.worker_init_fn, "the dataset": plan.dataset}


class WorkerPool:
    """Starts the workers of ``plan``; does not wait until they are ready. For one thread at a time.

    Args:
        plan: What they load.
        base_seed: Of the epoch.
        payload: What ``pack`` has made of the plan; its owner closes it. ``None``: it is made here, and where that is
            impossible, workers are forked if they may be.

    Raises:
        TypeError: Dataset, collate function or worker_init_fn cannot be pickled, and forking is no way out.
        WorkerError: The system cannot start a process.
        ValueError: There is no such start method here.
    """

    def __init__(self, plan: Plan, base_seed: int, payload: SharedPayload | None = None) -> None:
        self._children: list[Child] = []
        self._waiting: list[Child] = []  # those that may still send something
        self._heard: set[Child] = set()  # those that have sent something
        self._first = 0  # whose frames are looked at first
        prepare_start(plan.mp_context)
        context = context_of(plan.mp_context)
        try:
            if payload is not None:
                self._start(plan, base_seed, payload, context)
                return
            if context.get_start_method() == "fork":
                self._start_forked(plan, base_seed, context)
                return
            try:
                with SharedPayload(_parts(plan)) as payload:
                    self._start(plan, base_seed, payload, context)
            except UnpicklablePayloadError as exc:
                if not _may_fork(plan):
                    raise TypeError(f"{exc}. {_advice(plan)}") from exc.__cause__
                self._start_forked(plan, base_seed, context_of("fork"))
            except TypeError:  # of what goes along with each process
                if not _may_fork(plan):
                    raise
                self._start_forked(plan, base_seed, context_of("fork"))
        except BaseException:
            self.close()
            raise

    def _start_forked(self, plan: Plan, base_seed: int, context: BaseContext) -> None:
        self._start(plan, base_seed, ForkedPayload(_parts(plan).values()), context)

    def _start(self, plan: Plan, base_seed: int, payload: SharedPayload | ForkedPayload, context: BaseContext) -> None:
        number = next(_numbers)
        limit = max(_LEAST, default_limit() // plan.num_workers)
        template = None
        if isinstance(payload, SharedPayload):
            template = find_template(context, [_PRELOADED, *sorted(payload.modules)])
        with ExitStack() as stack:
            start_limit = _make_start_limit(plan)
            if start_limit is not None:
                stack.callback(start_limit.close)
            for worker_id in range(plan.num_workers):
                spec = WorkerSpec(
                    worker_id,
                    plan.num_workers,
                    base_seed,
                    plan.is_iterable,
                    plan.is_batched,
                    plan.batch_size,
                    plan.drop_last,
                )
                child = Child.start(
                    serve,
                    payload,
                    spec,
                    start_limit,
                    name=f"spdl-loader-{number}-{worker_id}",
                    what=f"DataLoader worker {worker_id}",
                    mp_context=context,
                    link_limit=limit,
                    inbound_only=True,
                    template=template,
                )
                self._children.append(child)
                self._waiting.append(child)

    @property
    def pids(self) -> list[int]:
        """Of the workers, in order."""
        return [child.pid for child in self._children]

    def ask(self, worker: int, kind: ToWorker, number: int = 0, payload: Any = NOTHING) -> None:
        """Send a request. That a worker is gone shows when what it had sent has been received.

        Raises:
            Exception: What pickling ``payload`` raises.
        """
        link = self._children[worker].link
        encoded = link.encode(payload)
        try:
            link.send_encoded([(kind, number, encoded)])
        except OSError:
            pass
        except BaseException:  # an interrupt: what was sent of it cannot be taken back
            self.close()
            raise

    def receive(self, timeout: float | None) -> tuple[int, Frame]:
        """Wait for the next answer of any worker: the worker, and what it says.

        Args:
            timeout: Seconds; ``None``: no limit. They count from the moment at which all workers have the dataset,
                unless that takes more than a minute: the import of torch in the fork server is no failure of a batch.

        Raises:
            WorkerTimeoutError: Nothing came in time. The workers go on.
            WorkerError: A worker failed, or is gone. So are the others now.
            PipelineStateError: This process was forked from the one that has the workers.
        """
        deadline = self._deadline(timeout)
        while True:
            try:
                ready = wait_any(self._waiting, None if deadline is None else max(0.0, deadline - monotonic()))
            except ValueError:  # closed: by another thread, or because this is a fork; they know which
                ready = self._waiting
            if not ready:
                raise WorkerTimeoutError(f"DataLoader timed out after {timeout:g} seconds")
            # Not always the same one first.
            self._first += 1
            child = ready[self._first % len(ready)]
            num_heard = len(self._heard)
            frame = self._hear(child)
            if frame is not None:
                return self._children.index(child), frame
            if len(self._heard) > num_heard:
                deadline = self._deadline(timeout)

    def await_ready(self) -> None:
        """Wait until all workers have the dataset, before anything is asked of them.

        Raises:
            WorkerError: A worker failed, or is gone. So are the others now.
        """
        while missing := [child for child in self._waiting if child not in self._heard]:
            for child in wait_any(missing):
                self._hear(child)

    def _hear(self, child: Child) -> Frame | None:
        """What a worker says, unless it is that it is ready, or only a part of a frame has come."""
        try:
            frame = child.recv(0)
        except TimeoutError:
            return None
        except BaseException as exc:
            if isinstance(exc, WorkerDiedError) and child not in self._heard:
                add_note(exc, guard_note("loads data"))
            self.close()
            raise
        if frame.kind != FromWorker.READY:
            return frame
        frame.discard()
        self._heard.add(child)
        return None

    def _deadline(self, timeout: float | None) -> float | None:
        if timeout is None:
            return None
        return monotonic() + timeout + (_START if len(self._heard) < len(self._children) else 0.0)

    def dismiss(self, worker: int) -> None:
        """Let a worker end by itself; nothing more is expected of it. Does not wait."""
        child = self._children[worker]
        with suppress(ValueError):
            self._waiting.remove(child)
        child.link.close()

    def close(self) -> None:
        """End all workers, and wait until they have ended. Idempotent."""
        children, self._children = self._children, []
        self._waiting = []
        self._heard.clear()
        for child in children:
            child.link.close()  # all get the word before any is waited for
        for child in children:
            child.stop()


def _make_start_limit(plan: Plan) -> StartLimit | None:
    if plan.init_concurrency is None or plan.init_concurrency >= plan.num_workers:
        return None
    start_limit = StartLimit(*multiprocessing.Pipe(duplex=False))
    start_limit.admit(plan.init_concurrency)
    return start_limit


def _may_fork(plan: Plan) -> bool:
    """The user has not said how to start processes, and none of the locks a child would inherit can be held."""
    return plan.mp_context is None and hasattr(os, "fork") and not is_threaded()


def _advice(plan: Plan) -> str:
    advice = "Define it in a module, or pass workers='thread', which shares it"
    if plan.mp_context is None and hasattr(os, "fork"):
        advice += ". Workers could be forked instead, but other threads run here"
    return advice
