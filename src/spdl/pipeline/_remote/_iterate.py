"""``iterate_in_subprocess``: an iterable in another process, iterated from here without an extra thread here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeVar

from spdl._numbers import as_int, as_timeout, int_or_none
from spdl._processes._child import Child
from spdl._processes._start import warm_up
from spdl._processes._transport._custom import CustomArena, is_arena

from ._iterate_main import run
from ._iterating import WHAT, ResumableWorker, Worker

T = TypeVar("T")

#: Modules that the fork server imports, so that its children do not have to.
_PRELOADED: Final = "spdl.pipeline._remote._preloaded"
_numbers: Final = itertools.count(1)


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
        made: Worker[T] = _start(Worker, fn, **options)
        return made
    from ._run_pipeline_main import SourceFactory  # imported late: few iterables have a state

    if not callable(fn):
        raise TypeError(f"fn must be callable, got {fn!r}")
    return iterate_resumably(SourceFactory(fn, resumable), **options)


def iterate_resumably(fn: Callable[[], Iterable[T]], *, buffer_size: int = 3, **options: Any) -> ResumableWorker[T]:
    """Same as ``iterate_in_subprocess``, for a ``fn`` that returns ``ResumableItems``."""
    if as_int("buffer_size", buffer_size) < 1:
        raise ValueError(
            f"buffer_size must be >= 1 for a resumable pipeline, got {buffer_size}: without a limit, the other process "
            "does not learn which items have been read"
        )
    made: ResumableWorker[T] = _start(ResumableWorker, fn, buffer_size=buffer_size, **options)
    return made


def _start(
    of: type[Any],
    fn: Callable[[], Iterable[Any]],
    *,
    buffer_size: int,
    initializer: Callable[[], object] | Sequence[Callable[[], object]] | None = None,
    mp_context: str | None = None,
    timeout: float | None = None,
    daemon: bool = False,
    arena: Any = None,
) -> Any:
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {fn!r}")
    initializers = _as_sequence(initializer)
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
    worker = of(child, buffer_size, timeout)
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
    if callable(initializer):
        return (initializer,)
    for each in initializer:
        if not callable(each):
            raise TypeError(f"initializer must be callable, or a sequence of callables, got {each!r} in it")
    return tuple(initializer)
