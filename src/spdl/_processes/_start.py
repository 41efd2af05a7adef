"""Starts processes: chooses the start method, uses a fork server with preloaded modules, and raises clear errors."""

from __future__ import annotations

import multiprocessing
import os
import select
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol, cast

from spdl._errors import WorkerError

from ._environment import Renewed, to_preload
from ._main_module import without_lost_main
from ._signals import signals_held

#: The fork server also imports these if this process uses them, because children probably use them too.
_LARGE: Final = "numpy", "torch"
#: A start opens about this many descriptors. If they run out half way, ``multiprocessing`` leaves some open.
_NUM_DESCRIPTORS: Final = 16
#: Maximum number of seconds to wait for the end of a fork server that has closed its socket.
_FORK_SERVER_ENDS: Final = 5.0

#: Held for every start and every read of an exit code: ``multiprocessing`` reads the codes of all children when it
#: starts one, and the code of a child of the fork server can be read only once.
lock = threading.RLock()


class _Seen:
    """State of the process: whether no start method was chosen at some moment."""

    unset = False


class _Server:
    """The fork server."""

    renewed = Renewed()  # variables that have changed since it was started


class StartedProcess(Protocol):
    """What is used of ``multiprocessing.Process``; a template's forks have it too."""

    name: str

    @property
    def pid(self) -> int | None: ...
    @property
    def sentinel(self) -> int: ...
    @property
    def exitcode(self) -> int | None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def close(self) -> None: ...


class TemplateGone(Exception):
    """The template has ended or cannot fork. Start the process in another way."""


class ForkServerGone(WorkerError):
    """The fork server died before it answered. A new one will be started, so retry with new pipes."""


def context_of(mp_context: str | BaseContext | None) -> BaseContext:
    """The context for a start method.

    Args:
        mp_context: Its name. ``None``: the method chosen by ``multiprocessing.set_start_method``; without a choice,
            ``forkserver`` where it exists, else ``spawn``.

    Raises:
        ValueError: There is no such method here.
    """
    if isinstance(mp_context, BaseContext):
        return mp_context
    methods = multiprocessing.get_all_start_methods()
    if mp_context is not None:
        if mp_context not in methods:
            raise ValueError(f"mp_context must be one of {', '.join(methods)}, got {mp_context!r}")
        return multiprocessing.get_context(mp_context)
    chosen = cast("str | None", multiprocessing.get_start_method(allow_none=True))
    # If fork is the default, any use of multiprocessing, even a start by the fork server, sets it as if the user had
    # chosen it. So it is used only if nothing indicates otherwise, and if it does no harm.
    if chosen is None:
        _Seen.unset = True
    if chosen is None or (chosen == "fork" and (_Seen.unset or is_threaded())):
        chosen = "forkserver" if "forkserver" in methods else "spawn"
    return multiprocessing.get_context(chosen)


def warm_up(mp_context: str | BaseContext | None, *modules: str) -> None:
    """Start the fork server if it will be used: it imports modules while the caller prepares.

    Args:
        mp_context: As for ``context_of``.
        modules: Further modules to import. A fork server that is already running imports nothing more.

    Raises:
        ValueError: There is no such start method here.
    """
    if context_of(mp_context).get_start_method() != "forkserver":
        return
    _preload(*modules)
    with suppress(OSError), lock, without_lost_main():  # errors are reported when the process is started
        _check_descriptors()
        _ensure_server()


def environment() -> dict[str, str | None]:
    """Return how the variables differ from those that the fork server was started with."""
    with lock:
        return _Server.renewed.changes()


def is_threaded() -> bool:
    """Whether other threads run in this process. A forked child would inherit their locks as they are."""
    return threading.active_count() > 1


def may_fork(mp_context: object) -> bool:
    """Whether a process with arguments that cannot be pickled may be forked instead.

    True if the user has not chosen a start method, and no other thread runs that might hold a lock.
    """
    return mp_context is None and hasattr(os, "fork") and not is_threaded()


def fork_advice(mp_context: object, advice: str) -> str:
    """Return advice for the case that something cannot be pickled and ``may_fork`` is false."""
    if mp_context is None and hasattr(os, "fork"):
        return f"{advice}. It could be forked instead, but other threads run here"
    return advice


def launch(
    context: BaseContext, target: Callable[..., None], args: tuple[Any, ...], *, name: str, daemon: bool
) -> BaseProcess:
    """Start a process. If that fails, nothing is left behind.

    Raises:
        ForkServerGone: See there.
        WorkerError: The system has no more processes, memory or descriptors. Or this process is itself being started,
            and its main module, imported first, tries to start another process.
        Exception: What pickling ``args`` raises.
    """
    if context.get_start_method() == "fork" and is_threaded():
        warnings.warn(
            f"{name} is started by fork while {threading.active_count() - 1} other thread(s) run: the child inherits"
            " the locks that they hold and can deadlock. Use the start method forkserver or spawn",
            RuntimeWarning,
            stacklevel=4,
        )
    # In typeshed only the contexts of concrete methods have it; at run time all contexts do.
    process: BaseProcess = context.Process(target=target, args=args, name=name, daemon=daemon)  # type: ignore[attr-defined]
    start(process, context)
    return process


def start(process: BaseProcess, context: BaseContext) -> None:
    """Start a process made by ``context``. The only function that does. If it fails, nothing is left behind.

    Hold ``lock`` to read the exit code afterwards, also for ``join``.

    Raises:
        ForkServerGone: See there.
        WorkerError: As in ``launch``.
        Exception: What pickling the arguments raises.
    """
    name, method = process.name, context.get_start_method()
    _check_not_importing_main(name)
    if method == "forkserver":
        _preload()
    try:
        _check_descriptors()
        with lock, _as_parent(), without_lost_main():
            _start_now(process, method)
    except (EOFError, ConnectionError) as exc:
        if method != "forkserver":
            raise WorkerError(f"cannot start {name} ({method}): {exc}") from exc
        _await_end_of_fork_server()
        raise ForkServerGone(
            f"cannot start {name}: the fork server of multiprocessing ended; its message is on stderr. It does that"
            " when the main script cannot be imported (what a script does belongs under `if __name__ == '__main__':`),"
            " and when the system has no process or memory for it"
        ) from exc
    except OSError as exc:
        raise WorkerError(f"cannot start {name} ({method}): {exc.strerror or exc}") from exc


def _start_now(process: BaseProcess, method: str) -> None:
    """Start it so that no signal of the training process ends it before it can ignore them."""
    if method == "forkserver":
        _ensure_server()
        process.start()
        return
    if method == "spawn" and sys.platform != "win32":
        _ensure_tracker()
    with signals_held():
        process.start()


def _ensure_server() -> None:
    """Start the fork server if it is not running."""
    from multiprocessing import forkserver

    before = _server_pid()
    _ensure_tracker()
    with signals_held():
        forkserver.ensure_running()
    if before is None or _server_pid() != before:
        _Server.renewed.begin(dict(os.environ))


def _ensure_tracker() -> None:
    """Start the process that ``multiprocessing`` starts before all others. Its start ends the hold of SIGTERM."""
    from multiprocessing import resource_tracker

    with signals_held():
        resource_tracker.ensure_running()


def _server_pid() -> int | None:
    """The process id of the fork server, which has no public name; ``None``: none was started, or it is not known."""
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    pid: int | None = getattr(server, "_forkserver_pid", None)
    return pid


def _await_end_of_fork_server() -> None:
    """Wait until a fork server that does not answer has ended: only then does ``multiprocessing`` start another.

    The sockets of a dying process are closed a moment before it can be waited for.
    """
    pid = _server_pid()
    if pid is None or not hasattr(os, "pidfd_open"):
        return
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            waiting = select.poll()  # not `select`, which refuses large descriptors
            waiting.register(descriptor, select.POLLIN)
            waiting.poll(_FORK_SERVER_ENDS * 1000)
        finally:
            os.close(descriptor)


@contextmanager
def _as_parent() -> Iterator[None]:
    """Allow this process to start others even if it is a daemon of ``multiprocessing`` (torch starts such processes).

    Daemons may not, because their children would stay when they are killed. Our children end by themselves.
    """
    current = multiprocessing.current_process()
    if not current.daemon:
        yield
        return
    current.daemon = False
    try:
        yield
    finally:
        current.daemon = True


def forget(process: object) -> None:
    """Make ``multiprocessing`` forget a process: in a forked child, one of the parent's.

    ``multiprocessing`` does this only in children that it has forked itself. In others, its exit would wait for the
    process, which fails, or terminate it. Its list has no public access.
    """
    children = getattr(multiprocessing.process, "_children", None)
    if isinstance(children, set):
        children.discard(process)


def _preload(*further: str) -> None:
    """Tell a fork server that has not started yet what to import, in addition to the user's modules.

    The existing list has no public reader. If it cannot be read, nothing is changed: the user's list is more important
    than our start time. The default entry, the main module, is removed: from 3.14 on the server really imports it,
    which runs a script without a guard even if it starts no process.
    """
    from multiprocessing import forkserver

    modules = getattr(getattr(forkserver, "_forkserver", None), "_preload_modules", None)
    ours = [*to_preload(), *further]
    ours += [name for name in _LARGE if name in sys.modules]
    if isinstance(modules, list) and not set(ours) <= set(modules):
        told = [] if modules == ["__main__"] else modules
        forkserver.set_forkserver_preload([*told, *(name for name in ours if name not in told)])


def _check_not_importing_main(name: str) -> None:
    """Raise where ``multiprocessing`` would, also for fork: otherwise each process would run the whole script again.

    The flag that a process is being started has no public name.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise WorkerError(
            f"cannot start {name}: this process is itself being started, and imports the main script for that. Put what"
            " the script does under `if __name__ == '__main__':`, so that it is not done again in each process"
        )


def _check_descriptors() -> None:
    """Raise ``OSError`` if a start would run out of descriptors half way."""
    opened: list[int] = []
    try:
        while len(opened) < _NUM_DESCRIPTORS:
            opened += os.pipe()
    finally:
        for each in opened:
            os.close(each)


def _renew_lock() -> None:
    """The inherited lock may be held by a thread that does not exist in the child."""
    global lock
    lock = threading.RLock()


def _forget_fork_server() -> None:
    """Make a forked child start its own fork server: ``multiprocessing`` would wait for the parent's as a child.

    The state has no public name; if the names change, a start fails as it does without this function.
    """
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    if getattr(server, "_forkserver_pid", None) is None or not hasattr(server, "_forkserver_alive_fd"):
        return
    assert server is not None
    os.close(server._forkserver_alive_fd)  # this copy of the descriptor that keeps the parent's server alive
    server._forkserver_pid = server._forkserver_address = server._forkserver_alive_fd = None
    server._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
    os.register_at_fork(after_in_child=_forget_fork_server)
