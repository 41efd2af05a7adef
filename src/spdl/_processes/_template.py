"""The client side of a template process, which forks workers with their modules already imported.

A new process imports the main module and then all modules that it needs. torch takes a second, which is paid for every
worker if workers live for one epoch only. A template imports the modules once and is then forked. Its forks contain
nothing but these imports, and no traces of earlier workers.

There is one template per process. It is started on first use, replaced if its imports are outdated (files of modules,
``sys.path``, the working folder), and ends with this process, or after two minutes without use.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from multiprocessing import util
from multiprocessing.context import BaseContext
from typing import Any, ClassVar, Final

from spdl._errors import WorkerError

from ._child import Child
from ._main_module import can_import_main
from ._start import TemplateGone, forget
from ._template_main import FORK, HEADER, IMPORT, MOST_DESCRIPTORS, REPLY, serve
from ._transport._connecting import dump_passing
from ._transport._connection import wait_readable

_IS_SUPPORTED: Final = sys.platform == "linux"
#: Time limit in seconds for importing modules; after that, workers are started without a template.
_LONGEST: Final = 120.0


class ForkedProcess:
    """A worker forked by a template, with the part of the interface of ``multiprocessing.Process`` that is used."""

    def __init__(self, template: Template, name: str, pid: int, status: int) -> None:
        self.name = name
        self.pid = pid
        self._template = template  # it stays as long as the exit code may be read
        self._status = status
        self._code: int | None = None
        self._is_known = False

    @property
    def sentinel(self) -> int:
        """Descriptor that is readable when the process has ended."""
        self._check_open()
        return self._status

    @property
    def exitcode(self) -> int | None:
        """``None`` while it runs, or if the template died before it reported the exit code."""
        self._check_open()
        if not self._is_known and wait_readable([self._status], 0):
            self._is_known = True
            data = os.read(self._status, REPLY.size)
            if len(data) == REPLY.size:
                (self._code,) = REPLY.unpack(data)
        return self._code

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._check_open()
        if not self._is_known:
            wait_readable([self._status], timeout)

    def close(self, _close: Callable[[int], None] = os.close) -> None:  # `os` may be gone at exit
        """Release it. Idempotent."""
        status, self._status = self._status, -1
        if status >= 0:
            _close(status)

    def _check_open(self) -> None:
        if self._status < 0:
            raise ValueError("process object is closed")

    def __del__(self) -> None:
        self.close()


class Template:
    """The template process. Thread-safe.

    Raises:
        WorkerError: It cannot be started.
    """

    def __init__(self, mp_context: BaseContext) -> None:
        self._lock = threading.Lock()
        self._imported: set[str] = set()
        self.control, there = socket.socketpair()
        self.control.settimeout(_LONGEST)
        try:
            # Not a daemon: daemons may not have children.
            self.child = Child.start(
                serve,
                there,
                name="spdl-template",
                what="The template of workers",
                mp_context=mp_context,
                daemon=False,
                link_limit=0,
            )
        except BaseException:
            self.control.close()
            raise
        finally:
            there.close()
        # multiprocessing would list it among the user's children and wait for it at exit. It is ended before.
        forget(self.child._process)

    def prepare(self, modules: Iterable[str]) -> str | None:
        """Make it import the modules that it has not imported yet.

        Returns:
            The module whose import makes forking impossible; the template is then unusable. ``None``: it can fork.

        Raises:
            TemplateGone: It has ended.
        """
        with self._lock:
            missing = [name for name in modules if name not in self._imported]
            reply = self._ask(IMPORT, pickle.dumps(missing), []) if missing else 1
            self._imported.update(missing)
            return missing[-reply - 1] if reply < 0 else None

    def launch(self, target: Callable[..., None], args: tuple[Any, ...], *, name: str, daemon: bool) -> ForkedProcess:
        """Fork a worker that calls ``target(*args)``.

        Raises:
            TemplateGone: It has ended or cannot fork. Nothing is left behind.
            Exception: What pickling raises.
        """
        call, descriptors = dump_passing((target, args))
        if len(descriptors) >= MOST_DESCRIPTORS:
            raise TemplateGone("too many descriptors to be passed at once")
        status, told = os.pipe()
        try:
            with self._lock:
                data = pickle.dumps((name, daemon, call))
                pid = self._ask(FORK, data, [told, *descriptors])
            if pid <= 0:
                raise TemplateGone(f"it cannot fork: {os.strerror(-pid)}")
            return ForkedProcess(self, name, pid, status)
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(told)

    def _ask(self, kind: int, data: bytes, descriptors: list[int]) -> int:
        """Send a request and wait for the reply. If this is interrupted, the template is unusable."""
        try:
            socket.send_fds(self.control, [HEADER.pack(kind, len(descriptors), len(data))], descriptors)
            self.control.sendall(data)
            reply = b""
            while len(reply) < REPLY.size:
                part = self.control.recv(REPLY.size - len(reply))
                if not part:
                    raise EOFError
                reply += part
            (answer,) = REPLY.unpack(reply)
            return int(answer)
        except (OSError, EOFError) as exc:
            self.control.close()
            raise TemplateGone("it has ended") from exc
        except BaseException:
            self.control.close()  # its answer would be mistaken for the answer to the next request
            raise

    def __del__(self) -> None:
        control = getattr(self, "control", None)
        if control is not None:
            control.close()


class _Kept:
    """The template of this process."""

    lock = threading.RLock()
    template: Template | None = None
    surroundings: Any = None
    files: ClassVar[dict[str, int | None]] = {}  # modification times of its imported modules
    unfit: frozenset[str] = frozenset()  # modules after whose import it could not fork
    inherited: ClassVar[list[Template]] = []  # in a fork: templates of the parent


def find_template(mp_context: BaseContext, modules: Iterable[str]) -> Template | None:
    """The template of this process, with these modules imported.

    Args:
        mp_context: The start method of workers.
        modules: Modules that they will import. If an import fails, it also fails in the workers, which report it.

    Returns:
        ``None``: workers must be started without a template, because the start method is not ``forkserver``, the system
            is not Linux, or a module starts threads on import.
    """
    names = [name for name in dict.fromkeys(modules) if name != "__main__"]
    if not _IS_SUPPORTED or mp_context.get_start_method() != "forkserver":
        return None
    with _Kept.lock:
        if not _Kept.unfit.isdisjoint(names):
            return None
        for _ in range(2):
            before = _Kept.template
            try:
                template = _current(mp_context)
                unfit = template.prepare(names)
            except TemplateGone:  # it was idle for too long, or was killed
                if _Kept.template is before:
                    continue
                unfit = names[0]  # a new template would die again
            except WorkerError:  # starting a worker will report why
                break
            if unfit is None:
                for name in names:
                    _Kept.files.setdefault(name, _changed(name))
                return template
            _Kept.unfit |= {unfit}
            break
        _Kept.template = None
        return None


def _current(mp_context: BaseContext) -> Template:
    """Return the existing template if its state equals that of a new process, else a new one."""
    surroundings = _surroundings()
    is_stale = surroundings != _Kept.surroundings or any(_changed(name) != when for name, when in _Kept.files.items())
    if _Kept.template is None or is_stale or not _Kept.template.child.is_alive():
        _Kept.template = None
        _Kept.files = {}
        _Kept.template = Template(mp_context)
        _Kept.surroundings = surroundings
    return _Kept.template


def _surroundings() -> Any:
    """The state that a new process would get from this one."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None) if can_import_main() else None
    name = getattr(getattr(main, "__spec__", None), "name", None)
    logger = util._logger if hasattr(util, "_logger") else None
    return (
        name,
        path,
        _modified(path),
        tuple(sys.path),
        tuple(sys.argv),
        os.getcwd(),
        bytes(multiprocessing.current_process().authkey),
        multiprocessing.get_start_method(allow_none=True),
        None if logger is None else logger.getEffectiveLevel(),
    )


def _changed(name: str) -> int | None:
    return _modified(getattr(sys.modules.get(name), "__file__", None))


def _modified(path: str | None) -> int | None:
    try:
        return None if path is None else os.stat(path).st_mtime_ns
    except OSError:
        return None


def kept() -> tuple[frozenset[int], frozenset[int]]:
    """The template's process id and its open descriptors, for leak checks."""
    template = _Kept.template
    if template is None or not template.child.is_alive():
        return frozenset(), frozenset()
    child = template.child
    found = [template.control.fileno(), child.link.fileno(), child._pidfd]
    return frozenset([child.pid]), frozenset(fd for fd in found if fd is not None and fd >= 0)


def _forget() -> None:
    """In a forked child: drop the template, which is the parent's."""
    _Kept.lock = threading.RLock()
    template, _Kept.template = _Kept.template, None
    if template is not None:
        _Kept.inherited.append(template)  # if collected here before its child is disowned, it would end the parent's
        template.control.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
