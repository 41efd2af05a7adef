"""``iterate_in_subprocess``: an iterable in another process, iterated from here without an extra thread here."""

from __future__ import annotations

import itertools
import math
import select
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from spdl._errors import PipelineStateError, WorkerDiedError, WorkerError, WorkerTimeoutError
from spdl._numbers import as_int, as_timeout, int_or_none
from spdl._processes._calls import Answer, Request
from spdl._processes._child import Child
from spdl._processes._environment import Environment
from spdl._processes._main_module import guard_note
from spdl._processes._remote_failure import RemoteFailure
from spdl._processes._start import warm_up
from spdl._processes._transport._custom import CustomArena, is_arena
from spdl._reports import add_note

from ._iterate_main import run

if TYPE_CHECKING:
    from spdl._processes._transport._frame import Frame

    from ._moved import MovedWorkers

T = TypeVar("T")

#: What the fork server imports, so that its children do not have to.
_PRELOADED: Final = "spdl.pipeline._remote._iterate_main"
_numbers: Final = itertools.count(1)
#: The process, in messages.
WHAT: Final = "The worker subprocess"
#: A *rush*: more than this many items in a row, each taken within this many seconds of the one before.
_PAUSE: Final = 0.0005
_RUSH: Final = 16
#: From this buffer size on, the request for up to an eighth of the items may be delayed.
_LARGE_BUFFER: Final = 32
_KEPT_PART: Final = 8
#: Seconds after which a thread that reads ahead checks for messages that another thread has received.
_LOOK_INTERVAL: Final = 0.05
_ITEM: Final = int(Answer.RESULT)


def iterate_in_subprocess(
    fn: Callable[[], Iterable[T]],
    *,
    buffer_size: int = 3,
    initializer: Callable[[], object] | Sequence[Callable[[], object]] | None = None,
    mp_context: str | None = None,
    timeout: float | None = None,
    daemon: bool = False,
    arena: Any = None,
    resumable: bool | Literal["best-effort"] = False,
) -> Iterable[T]:
    """Run ``fn`` in a new process and return an iterable over the items of its result.

    .. code-block:: python

        import functools

        numbers = iterate_in_subprocess(functools.partial(range, 1000), buffer_size=8)
        for number in numbers:
            ...

    The process is started at once, and runs until the returned iterable is garbage collected or the interpreter exits.
    Each ``iter()`` starts a new iteration over the same object in that process. An iteration can be left early: the
    next one drops its remaining items. Large buffers of items (arrays, tensors, bytes, packets) are passed through
    shared memory, see ``arena``.

    Args:
        fn: Function called once, in the new process. It must pickle; otherwise the process is forked, if this process
            runs no other thread.
        buffer_size: Maximum number of items to prefetch. 1: the next item is made when the previous one has been taken.
            Less than 1: no limit. From 32 on, the number may be up to one eighth lower, which makes small items cheap.
        initializer: Function, or several in order, called in the new process before ``fn``.
        mp_context: Start method. ``None``: the one set with ``multiprocessing.set_start_method``, else ``forkserver``
            where it exists, else ``spawn``.
        timeout: Maximum time in seconds to wait for an item, and for the start. ``None``: no limit.
        daemon: Same as for ``multiprocessing.Process``: a daemon may not start processes itself.
        arena: Shared memory for the items' buffers. ``None``: sized automatically. An int: the same, with this limit in
            bytes (0: no shared memory). Or a :class:`~spdl.pipeline.SharedMemoryRingBuffer`, a
            :class:`~spdl.pipeline.SharedMemorySegmentPool` or another arena, which is closed at the end.
        resumable: Whether the result has the methods ``state_dict()`` and ``load_state_dict()`` of
            :class:`~spdl.pipeline.Pipeline`. The iterable is then the source of a pipeline in the new process. The
            state records how far it was read here; the methods of the iterable (``__getitem__``, or its own state)
            decide how another run finds that position. A thread iterates it ahead of sending, so each item must have
            its own memory. ``buffer_size`` must be limited.

    Returns:
        An iterable, for one thread at a time. In a forked child it raises ``PipelineStateError``.

    Raises:
        WorkerError: An initializer or ``fn`` raised (``Initializer failed``, ``Failed to create the iterable``), or the
            process could not be started. Iterating raises it too: ``Failed to fetch the next item``, ``Failed to create
            the iterator``. The text contains the original exception, and ``remote_traceback`` its traceback.
        WorkerDiedError: The process has died. Items that had already arrived are returned first.
        WorkerTimeoutError: Nothing arrived for ``timeout`` seconds.
        PipelineStateError: It is iterated again after such an error, which ends the process.
        TypeError: ``fn`` or an initializer cannot be pickled and the process cannot be forked, or an argument has the
            wrong type.
        ValueError: There is no start method ``mp_context`` here; ``timeout`` is not above 0, or not finite;
            ``resumable`` is neither a bool nor ``"best-effort"``, or is given and ``buffer_size`` is unlimited.
    """
    options: dict[str, Any] = {
        "buffer_size": buffer_size,
        "initializer": initializer,
        "mp_context": mp_context,
        "timeout": timeout,
        "daemon": daemon,
        "arena": arena,
    }
    if resumable is False:
        made: Worker[T] = start_iterating(fn, **options)
        return made
    from ._run_pipeline_main import SourceFactory  # imported late: few iterables have a state

    if not callable(fn):
        raise TypeError(f"fn must be callable, got {fn!r}")
    return start_iterating(SourceFactory(fn, resumable), is_resumable=True, **options)


def start_iterating(
    fn: Callable[[], Iterable[T]],
    *,
    first: Callable[[], object] | None = None,
    is_resumable: bool = False,
    buffer_size: int = 3,
    initializer: Callable[[], object] | Sequence[Callable[[], object]] | None = None,
    mp_context: str | None = None,
    timeout: float | None = None,
    daemon: bool = False,
    arena: Any = None,
) -> Worker[T]:
    """Same as ``iterate_in_subprocess``; ``first`` comes before the initializers. If resumable, ``fn`` returns
    ``ResumableItems``.
    """
    if is_resumable and as_int("buffer_size", buffer_size) < 1:
        raise ValueError(
            f"buffer_size must be >= 1 for a resumable pipeline, got {buffer_size}: without a limit, the other process "
            "does not learn which items have been read"
        )
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {fn!r}")
    initializers = (*_as_sequence(first), *_as_sequence(initializer))
    buffer_size = as_int("buffer_size", buffer_size)
    timeout = as_timeout("timeout", timeout, positive=True)
    arena = _as_arena(arena)
    warm_up(mp_context, _PRELOADED)
    options: dict[str, Any] = {}
    if arena is None or isinstance(arena, int):
        options["link_limit"] = arena
    else:
        options["arena"] = explicit = CustomArena(arena)
        options["at_end"] = explicit.close
    child = Child.start(
        run,
        fn,
        initializers,
        name=f"spdl-iterate-{next(_numbers)}",
        what=WHAT,
        mp_context=mp_context,
        daemon=daemon,
        inbound_only=True,
        has_rings=True,
        **options,
    )
    worker: Worker[T] = (ResumableWorker if is_resumable else Worker)(child, buffer_size, timeout)
    worker.wait_ready()
    return worker


def _as_arena(arena: object) -> Any:
    if (num_bytes := int_or_none(arena)) is not None:
        if num_bytes < 0:
            raise ValueError(f"arena must be >= 0 bytes, got {num_bytes}")
        return num_bytes
    if arena is not None and not is_arena(arena):
        raise TypeError(
            "arena must be None, a number of bytes, or an arena such as SharedMemoryRingBuffer, "
            f"got {arena!r} of type {type(arena).__qualname__}"
        )
    return arena


def _as_sequence(
    initializer: Callable[[], object] | Sequence[Callable[[], object]] | None,
) -> tuple[Callable[[], object], ...]:
    if initializer is None:
        return ()
    if callable(initializer) or not isinstance(initializer, Iterable):
        initializer = (initializer,)
    for each in initializer:
        if not callable(each):
            raise TypeError(f"initializer must be callable, or a sequence of callables, got {each!r} in it")
    return tuple(initializer)


class Worker(Generic[T]):
    """The iterable. It keeps the process alive, and iterators keep the iterable alive."""

    def __init__(self, child: Child, buffer_size: int, timeout: float | None) -> None:
        self._child = child
        self.link = child.link
        self.buffer_size = max(0, buffer_size)  # 0: no limit
        self._credits = self.buffer_size or math.inf
        # An explicit arena is reset with each iteration, when nothing of the last iteration is in transfer.
        self._must_confirm = hasattr(child.link.receiver, "reset")
        self.timeout = timeout
        self.number = 0  # of the latest iteration
        self._is_ended = False
        self._environment = Environment()
        self._owned: MovedWorkers | None = None

    def own(self, workers: MovedWorkers) -> None:
        """Own the workers that the iterable uses in its process: they end with that, or explain why it has failed."""
        self._owned = workers
        # At interpreter exit, all children are ended together, not by this finalizer.
        weakref.finalize(self, _end, self._child, workers).atexit = False

    def __iter__(self) -> Iterator[T]:
        self.check()
        return _Iteration(self)

    def check(self) -> None:
        """Raise ``PipelineStateError`` if the process was ended."""
        if self._is_ended:
            raise PipelineStateError(f"{WHAT} was ended after an error. Cannot iterate again")

    def wait_ready(self) -> None:
        """Wait until the iterable exists."""
        try:
            frame = self.receive()
        except WorkerDiedError as exc:
            add_note(exc, guard_note("starts processes"))
            raise
        assert frame.kind == Answer.READY

    def begin(self) -> int:
        """Tell the process to start another iteration. Returns the number of the iteration."""
        self.check()
        self.number += 1
        if changes := self._environment.changes():
            self.tell(Request.ENVIRONMENT, changes)
        self.tell(Request.START, 0 if self._must_confirm else self._credits)
        return self.number

    def confirm(self) -> None:
        """Confirm that all messages of older iterations were received. The process waits for this."""
        self.link.receiver.reset()  # type: ignore[union-attr]
        self.tell(Request.CREDIT, self._credits)

    def give_credit(self, count: int) -> None:
        """Let the process make ``count`` more items."""
        with suppress(OSError):
            self.link.signal(Request.CREDIT, self.number, count)

    def tell(self, kind: Request, payload: Any) -> None:
        """Send a command for the latest iteration. If the process is dead, the next ``receive`` raises."""
        with suppress(OSError):
            self.link.send(kind, self.number, payload)

    def has_waiting(self) -> bool:
        """Return whether a message has been received but not yet handled."""
        return self.link.has_received()

    def receive(self) -> Frame:
        """Return the next message. Errors end the process."""
        self.check()
        try:
            frame = self._child.recv(self.timeout)
        except TimeoutError:
            error: WorkerError = WorkerTimeoutError(f"{WHAT} did not produce any data for {self.timeout:g} seconds")
        except WorkerError as exc:
            if not self.number and not isinstance(exc, WorkerDiedError):
                exc.args = (f"Failed to create the iterable: {exc}",)
            error = exc
        else:
            if frame.kind != Answer.BROKEN:
                return frame
            attempt, failure = frame.load()
            error = failure.as_error(attempt)
        raise self.end(error)

    def end(self, error: WorkerError) -> WorkerError:
        """End the process, because of an error. Return the error to raise."""
        self._is_ended = True
        # After a timeout by force: a graceful end would only take longer.
        self._child.stop(0.0 if isinstance(error, TimeoutError) else 3.0)
        if self._owned is None:
            return error
        explained = self._owned.explain(error)
        self._owned.stop()
        if explained is not error:
            explained.__cause__ = error
        return explained


def _end(child: Child, workers: MovedWorkers) -> None:
    """End the process that uses the workers, then the workers, when nothing refers to the items."""
    child.stop()
    workers.stop()


class ResumableWorker(Worker[T]):
    """The iterable over a resumable pipeline in another process. Its state can be saved and loaded here."""

    num_read = 0  # items of the latest iteration that the user has; its end counts as one

    def __init__(self, child: Child, buffer_size: int, timeout: float | None) -> None:
        super().__init__(child, buffer_size, timeout)
        self.reading = threading.Lock()  # a thread may read ahead while the user requests the state

    def __iter__(self) -> Iterator[T]:
        self.check()
        return _ResumableIteration(self)

    def begin(self) -> int:
        self.num_read = 0
        return super().begin()

    def state_dict(self) -> dict[str, str]:
        """Same as :meth:`spdl.pipeline.Pipeline.state_dict`. The other process answers between two items."""
        state: dict[str, str] = self._ask(Request.STATE, self.num_read)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Same as :meth:`spdl.pipeline.Pipeline.load_state_dict`. Call before the first iteration."""
        if self.number:
            raise PipelineStateError("cannot load a state: the pipeline in the subprocess has been iterated")
        self._ask(Request.LOAD, state)

    def _ask(self, kind: Request, payload: Any) -> Any:
        with self.reading:
            self.check()
            self.tell(kind, payload)
            others: list[Frame] = []
            try:
                while (frame := self.receive()).kind != Answer.STATE:
                    others.append(frame)
            finally:
                self.link.put_back(others)
        answer = frame.load()
        if not isinstance(answer, RemoteFailure):
            return answer
        if answer.type_name == "ResumeError":
            from spdl.resume._values import ResumeError  # imported late: rarely needed

            raise ResumeError(answer.message)
        raise answer.as_error("The pipeline in the subprocess has no such state")


class _Iteration(Generic[T]):
    """An iterator over the items of one iteration. The iteration begins with the first ``next``."""

    def __init__(self, worker: Worker[T]) -> None:
        self._worker = worker
        self._number = 0  # until it begins
        self._is_over = False
        self._num_taken = 0  # items taken and not yet reported to the process
        # With a large buffer, this many taken items are collected before they are reported.
        self._num_kept = -(-worker.buffer_size // _KEPT_PART) if worker.buffer_size >= _LARGE_BUFFER else 0
        self._num_quick = 0  # taken since the last pause
        self._last = 0.0  # when the last one was taken

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        worker = self._worker
        frame: Frame | None
        if self._number == worker.number and (frame := worker.link.next_of(_ITEM, self._number)) is not None:
            return self._take(frame)
        if self._is_over:
            raise StopIteration
        if not self._number:
            self._number = worker.begin()
        elif self._number != worker.number:
            raise PipelineStateError("a newer iterator of the same iterable has been used")
        while True:
            frame = worker.receive()
            if frame.number != self._number:  # left over from an iteration that was left early
                frame.discard()
                continue
            if frame.kind == Answer.END:
                self._is_over = True
                raise StopIteration
            if frame.kind == Answer.STARTED:
                worker.confirm()
                continue
            return self._take(frame)

    def _take(self, frame: Frame) -> T:
        worker = self._worker
        if self._num_kept:
            self._num_taken += 1
            if self._num_taken >= self._num_kept:
                worker.give_credit(self._num_taken)
                self._num_taken = 0
        elif worker.buffer_size:
            self._give_credit(worker)
        try:
            item: T = frame.load()
        except Exception as exc:  # noqa: BLE001 - unpickling runs the user's code
            text = f"Failed to fetch the next item: it cannot be unpickled here: {exc} ({type(exc).__name__})"
            error = WorkerError(text)
            error.__cause__ = exc
            raise worker.end(error)  # noqa: B904 - it has its cause
        return item

    def _give_credit(self, worker: Worker[T]) -> None:
        """Let the process make new items in place of those that were taken.

        Every message is a system call, and may wake the process. With a small buffer, every taken item is reported at
        once; but in a rush, reports are collected while items are waiting here, and sent before this side would wait.
        """
        self._num_taken += 1
        now = monotonic()
        self._num_quick = self._num_quick + 1 if now - self._last < _PAUSE else 0
        self._last = now
        if self._num_quick >= _RUSH and self._num_taken * 2 <= worker.buffer_size and worker.has_waiting():
            return
        worker.give_credit(self._num_taken)
        self._num_taken = 0


class _ResumableIteration(_Iteration[T]):
    """An iterator that also counts which items have been read, for the state.

    For code that reads ahead for the user, in its own thread, it has ``hold``, ``token`` and ``commit``; see
    ``spdl.dataloader._holding.Holding``.
    """

    _worker: ResumableWorker[T]

    def __init__(self, worker: ResumableWorker[T]) -> None:
        super().__init__(worker)
        self._num = 0  # items that ``next`` has returned; the end counts as one
        self._is_held = False

    def __next__(self) -> T:
        was_over = self._is_over
        if self._is_held:
            self._await_message()
        try:
            with self._worker.reading:
                item = super().__next__()
        except StopIteration:
            if not was_over and self._number == self._worker.number:
                self._count()
            raise
        self._count()
        return item

    def _count(self) -> None:
        self._num += 1
        if not self._is_held:
            self._worker.num_read = self._num

    def _await_message(self) -> None:
        """Wait without the lock, so that the user can request the state during the wait."""
        link, limit = self._worker.link, self._worker.timeout
        if self._is_over or not self._number:
            return
        until = math.inf if limit is None else monotonic() + limit
        while not link.has_frame() and monotonic() < until:
            try:
                if select.select([link.fileno()], [], [], _LOOK_INTERVAL)[0]:
                    return
            except (OSError, ValueError):
                return  # it has ended, or there are too many files for select(): then wait with the lock

    def hold(self) -> None:
        self._is_held = True
        self._worker.tell(Request.HOLD, None)

    def token(self) -> int:
        return self._num

    def commit(self, token: int) -> None:
        worker = self._worker
        if self._number != worker.number or worker.num_read == token:
            return
        worker.num_read = token
        with suppress(OSError):
            worker.link.signal(Request.READ, self._number, token)
