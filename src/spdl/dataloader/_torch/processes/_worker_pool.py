"""``WorkerPool``: the worker processes of one loader, as the consumer's thread sees them. ``Starting`` starts them."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from contextlib import ExitStack, suppress
from multiprocessing.context import BaseContext
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from spdl._processes._calls import Answer, Request, wait_any
from spdl._processes._child import Child, stop_all
from spdl._processes._environment import Environment
from spdl._processes._main_module import guard_note
from spdl._processes._start import context_of, fork_advice, may_fork, warm_up
from spdl._processes._template import find_template
from spdl._processes._transport._arena import default_limit
from spdl._processes._transport._pickling import NOTHING
from spdl._reports import add_note
from spdl.dataloader._torch._arguments import Plan
from spdl.dataloader._torch.resuming._progress import Progress
from spdl.pipeline import PipelineStateError, WorkerDiedError, WorkerTimeoutError

from ._payload import ForkedPayload, SharedPayload, UnpicklablePayloadError
from ._process_main import StartLimit, WorkerSpec, serve

if TYPE_CHECKING:
    from spdl._processes._transport._frame import Frame

#: Module that the fork server imports, so that workers need not.
_PRELOADED: Final = "spdl.dataloader._torch.processes._preloaded"
#: Minimum shared memory, in bytes, for the batches of one worker.
_LEAST: Final = 64 << 20
#: Seconds that starting workers may take before it counts towards the timeout of a batch.
_START: Final = 60.0
_ADVICE: Final = "Define it in a module, or pass workers='thread', which shares it"
_numbers: Final = itertools.count(1)


def prepare_start(mp_context: str | BaseContext | None) -> None:
    """Start the fork server, if one will be used, which imports torch while the caller continues.

    Raises:
        ValueError: There is no such start method here.
    """
    warm_up(mp_context, _PRELOADED)


def pack(plan: Plan) -> SharedPayload | None:
    """Pickle the objects for the workers of ``plan``; ``None`` if workers are forked, which pickles nothing.

    Raises:
        UnpicklablePayloadError: Dataset, collate function or worker_init_fn cannot be pickled.
        ValueError: There is no such start method here.
    """
    if context_of(plan.multiprocessing_context).get_start_method() == "fork":
        return None
    return SharedPayload(_parts(plan))


def _parts(plan: Plan) -> dict[str, Any]:
    # The dataset last: it may be large, and errors of the others show first.
    return {"collate_fn": plan.collate_fn, "worker_init_fn": plan.worker_init_fn, "the dataset": plan.dataset}


class WorkerPool:
    """Starts the workers of ``plan`` without waiting until they are ready. Not thread-safe.

    Args:
        plan: Plan of the epoch.
        base_seed: Base seed of the epoch.
        payload: Result of ``pack`` for the plan; its owner closes it. ``None``: it is made here; if that fails, workers
            are forked, provided that forking is allowed.
        progress: Where the first epoch begins; ``None``: at the beginning.

    Raises:
        TypeError: Dataset, collate function or worker_init_fn cannot be pickled, and workers cannot be forked.
        WorkerError: The system cannot start a process.
        ValueError: There is no such start method here.
    """

    def __init__(
        self, plan: Plan, base_seed: int, payload: SharedPayload | None = None, progress: Progress | None = None
    ) -> None:
        self._progress = progress or Progress()
        self._children: list[Child] = []
        self._waiting: list[Child] = []  # workers that may still send something
        self._heard: set[Child] = set()  # workers that have sent something
        self._first = 0  # rotates, so that all workers are served fairly
        self._environment = Environment()  # of the workers
        prepare_start(plan.multiprocessing_context)
        context = context_of(plan.multiprocessing_context)
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
                if not may_fork(plan.multiprocessing_context):
                    raise TypeError(f"{exc}. {fork_advice(plan.multiprocessing_context, _ADVICE)}") from exc.__cause__
                self._start_forked(plan, base_seed, context_of("fork"))
            except TypeError:  # from an argument of each process, such as a lock
                if not may_fork(plan.multiprocessing_context):
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
                    self._progress.start_of(worker_id),
                    plan.sample_policy,
                    plan.persistent_workers,
                    self._progress.snapshot_every,
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
                    fork=None if template is None else template.launch,
                )
                self._children.append(child)
                self._waiting.append(child)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, in order."""
        return [child.pid for child in self._children]

    def ask(self, worker: int, kind: Request, number: int = 0, payload: Any = NOTHING) -> None:
        """Send a request. If the worker is dead, ``receive`` reports this after everything that the worker had sent.

        Raises:
            Exception: Pickling ``payload`` raised it.
        """
        link = self._children[worker].link
        encoded = link.encode(payload)
        try:
            link.send_encoded([(kind, number, encoded)])
        except OSError:
            pass
        except BaseException:  # an interrupt: the request may have been sent only in part
            self.close()
            raise

    def restart(self) -> None:
        """Tell all workers that the earlier requests belong to an older epoch, and that another one begins."""
        changes = self._environment.changes()
        for worker in range(len(self._children)):
            if changes:
                self.ask(worker, Request.ENVIRONMENT, payload=changes)
            self.ask(worker, Request.START)

    def receive(self, timeout: float | None) -> tuple[int, Frame]:
        """Wait for the next answer of any worker. Returns the worker's index and its answer.

        Args:
            timeout: Seconds; ``None``: no limit. The time starts when all workers have the dataset, or after a minute
                at the latest, so that importing torch in the fork server does not count.

        Raises:
            WorkerTimeoutError: No answer arrived within the timeout. The workers continue.
            WorkerError: A worker failed or died. The others have been ended.
            PipelineStateError: This process was forked from the one that has the workers.
        """
        deadline = self._deadline(timeout)
        while True:
            try:
                ready = wait_any(self._waiting, None if deadline is None else max(0.0, deadline - monotonic()))
            except ValueError:  # closed by another thread, or by a fork; ``recv`` raises the right error
                ready = self._waiting
            if not ready:
                raise WorkerTimeoutError(f"DataLoader timed out after {timeout:g} seconds")
            # Start with another worker each time.
            self._first += 1
            child = ready[self._first % len(ready)]
            num_heard = len(self._heard)
            frame = self._hear(child)
            if frame is not None:
                return self._children.index(child), frame
            if len(self._heard) > num_heard:
                deadline = self._deadline(timeout)

    def await_ready(self) -> None:
        """Wait until all workers have the dataset. Called before the first request.

        Raises:
            WorkerError: A worker failed or died. The others have been ended.
        """
        while missing := [child for child in self._waiting if child not in self._heard]:
            for child in wait_any(missing):
                self._hear(child)

    def _hear(self, child: Child) -> Frame | None:
        """Receive an answer of a worker; ``None`` if it was READY, or if the frame is incomplete."""
        try:
            frame = child.recv(0)
        except TimeoutError:
            return None
        except BaseException as exc:
            if isinstance(exc, WorkerDiedError) and child not in self._heard:
                add_note(exc, guard_note("loads data"))
            self.close()
            raise
        if frame.kind != Answer.READY:
            return frame
        frame.discard()
        self._heard.add(child)
        return None

    def _deadline(self, timeout: float | None) -> float | None:
        if timeout is None:
            return None
        return monotonic() + timeout + (_START if len(self._heard) < len(self._children) else 0.0)

    def dismiss(self, worker: int) -> None:
        """End a worker that has nothing more to send. Does not wait."""
        child = self._children[worker]
        with suppress(ValueError):
            self._waiting.remove(child)
        child.link.close()

    def close(self) -> None:
        """End all workers and wait for them. Idempotent."""
        children, self._children = self._children, []
        self._waiting = []
        self._heard.clear()
        stop_all(children)


def _make_start_limit(plan: Plan) -> StartLimit | None:
    if plan.worker_init_concurrency is None or plan.worker_init_concurrency >= plan.num_workers:
        return None
    start_limit = StartLimit(*multiprocessing.Pipe(duplex=False))
    start_limit.admit(plan.worker_init_concurrency)
    return start_limit


class Starting:
    """Starts the workers of ``plan`` in a thread, which waits until they have the dataset.

    The first start takes seconds, because the fork server imports torch. The constructor pickles the dataset, so the
    caller may change it afterwards. Forked workers are ready at once; the constructor starts them, because the process
    must not fork while another thread runs.

    Raises:
        TypeError: An object that the workers need cannot be pickled.
        WorkerError: The system cannot start a process.
    """

    def __init__(self, plan: Plan, base_seed: int, progress: Progress) -> None:
        self._lock = threading.Lock()
        self._pool: WorkerPool | None = None
        self._error: Exception | None = None
        self._is_unwanted = False
        self._thread: threading.Thread | None = None
        payload = pack(plan)
        if payload is None:
            self._pool = WorkerPool(plan, base_seed, progress=progress)
            return

        def start() -> None:
            try:
                with payload:
                    pool = WorkerPool(plan, base_seed, payload, progress)
                    pool.await_ready()
            except Exception as exc:  # noqa: BLE001 - raised by ``pool``
                self._error = exc
                return
            with self._lock:
                if not self._is_unwanted:
                    self._pool = pool
                    return
            pool.close()

        self._thread = threading.Thread(target=start, name="spdl-starting")
        try:
            self._thread.start()
        except BaseException:
            payload.close()
            raise

    def is_done(self) -> bool:
        """Whether ``pool`` would not have to wait."""
        return self._thread is None or not self._thread.is_alive()

    def pool(self) -> WorkerPool:
        """Wait for the workers and take ownership of them.

        Raises:
            TypeError: An argument of each process, such as a lock, cannot be sent.
            WorkerError: The system cannot start a process, or a worker failed before it had the dataset.
            PipelineStateError: This process was forked from the one that starts the workers.
        """
        if self._thread is not None:
            self._thread.join()
        pool, self._pool = self._pool, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        if pool is None:
            raise PipelineStateError("the workers belong to the process that this one was forked from")
        return pool

    def abandon(self) -> None:
        """End the workers as soon as they have started. Does not wait."""
        with self._lock:
            self._is_unwanted = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
