"""The template process: imports the modules that workers need, and forks workers on request.

It runs no user code except imports, so its forks are fresh interpreters with these modules imported. It has one thread,
as forking requires; a module that starts threads on import makes it unusable, and workers are then started without it.

Requests arrive over a socket, with descriptors: a header and data. ``_template`` has the other end.
"""

from __future__ import annotations

import array
import gc
import importlib
import multiprocessing
import os
import pickle
import select
import socket
import struct
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple

from ._signals import signals_held
from ._transport._connecting import load_passed
from ._transport._link import Link

#: Kind of request, number of descriptors, bytes of data.
HEADER: Final = struct.Struct("<BIQ")
#: Reply to a fork: the process id, or a negated error number. Reply to an import: see ``_import``.
REPLY: Final = struct.Struct("<q")
IMPORT: Final = 1  # data: names of modules, by pickle
FORK: Final = (
    2  # data: by pickle, name, whether a daemon, and the pickled call. The first descriptor gets the exit code
)
#: Linux passes at most 253 at once.
MOST_DESCRIPTORS: Final = 250
#: A template without workers and requests ends after this many seconds.
_IDLE: Final = 120.0
#: Native threads of a template: the main one, and the one that watches the connection to the parent.
_NUM_THREADS: Final = 2


def serve(link: Link, control: socket.socket) -> None:
    """Body of the template: serve requests until the parent closes the connection or stops sending requests."""
    # Not through multiprocessing's exit, which would end the workers. They have another owner.
    try:
        _Template(link, control).run()
    finally:
        os._exit(0)


class _Template:
    def __init__(self, link: Link, control: socket.socket) -> None:
        self._link = link
        self._control = control
        self._workers: dict[int, _Worker] = {}  # by the descriptor that signals their end
        self._poll = select.poll()
        for each in (link.fileno(), control.fileno()):
            self._poll.register(each, select.POLLIN)

    def run(self) -> None:
        while True:
            ready = self._poll.poll(None if self._workers else _IDLE * 1000)
            if not ready:
                return
            found = {fd for fd, _ in ready}
            for fd in found & self._workers.keys():
                self._report_exit(fd)
            if self._link.fileno() in found:
                return
            if self._control.fileno() in found and not self._answer():
                return

    def _answer(self) -> bool:
        """Serve one request. False: there are no more."""
        descriptors: list[int] = []
        try:
            header, descriptors = self._receive_header()
            if not header:
                return False
            kind, num_descriptors, size = HEADER.unpack(header)
            data = self._receive(size)
            if kind == IMPORT:
                reply = _import(pickle.loads(data))
            elif len(descriptors) != num_descriptors:  # the descriptor limit of this process is reached
                reply = -1
            else:
                reply = self._fork(descriptors, data)
        finally:
            for each in descriptors:
                os.close(each)
        self._control.sendall(REPLY.pack(reply))
        return True

    def _receive_header(self) -> tuple[bytes, list[int]]:
        descriptors = array.array("i")
        room = socket.CMSG_SPACE(MOST_DESCRIPTORS * descriptors.itemsize)
        header, ancillary, _, _ = self._control.recvmsg(HEADER.size, room)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        return header, list(descriptors)

    def _receive(self, size: int) -> bytes:
        parts = []
        while size and (part := self._control.recv(min(size, 1 << 20))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _fork(self, descriptors: list[int], data: bytes) -> int:
        name, daemon, call = pickle.loads(data)
        context: Any = multiprocessing.get_context("fork")
        process: BaseProcess = context.Process(
            target=_run, args=(self, descriptors, call, _Surroundings()), name=name, daemon=daemon
        )
        status = os.dup(descriptors[0])
        before = _open_descriptors()
        try:
            with warnings.catch_warnings():
                # From Python 3.12 on, fork counts native threads and warns that it may deadlock.
                warnings.simplefilter("ignore", DeprecationWarning)
                with signals_held():
                    process.start()
        except OSError as exc:
            os.close(status)
            return -(exc.errno or 1)
        assert process.pid is not None
        ending = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else os.dup(process.sentinel)
        # multiprocessing keeps some open, which later workers would inherit.
        self._workers[ending] = _Worker(process, status, _open_descriptors() - before)
        self._poll.register(ending, select.POLLIN)
        return process.pid

    def _report_exit(self, ending: int) -> None:
        """Report the exit code of a worker that has ended."""
        self._poll.unregister(ending)
        process, status, _ = self._workers.pop(ending)
        process.join()
        with suppress(OSError):  # the receiver has closed
            os.write(status, REPLY.pack(process.exitcode or 0))
        os.close(status)
        os.close(ending)
        process.close()

    def leave(self) -> None:
        """In a worker: close what belongs to the template."""
        self._control.close()
        for ending, worker in self._workers.items():
            for each in {ending, worker.status} | worker.descriptors:
                os.close(each)
        self._workers.clear()


class _Worker(NamedTuple):
    process: BaseProcess
    status: int  # where the exit code goes
    descriptors: set[int]  # opened for it


def _open_descriptors() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor that lists the folder
            os.fstat(int(name))
            found.add(int(name))
    return found


class _Surroundings:
    """The information of ``multiprocessing`` about the parent process, which a fork would change."""

    def __init__(self) -> None:
        self.parent = multiprocessing.parent_process()
        self.start_method: Any = multiprocessing.get_start_method(allow_none=True)

    def restore(self) -> None:
        multiprocessing.set_start_method(self.start_method, force=True)
        # The parent is the process that started the template. There is no public way to set it; without this, it would
        # be the template.
        if hasattr(multiprocessing.process, "_parent_process"):
            multiprocessing.process._parent_process = self.parent


def _run(template: _Template, descriptors: list[int], call: bytes, surroundings: _Surroundings) -> None:
    """Body of a worker."""
    template.leave()
    surroundings.restore()
    os.close(descriptors[0])
    target: Callable[..., None]
    target, args = load_passed(call, descriptors[1:])
    target(*args)


def _import(names: list[str]) -> int:
    """Import modules. Returns 1 if the process can still be forked; -n if not since module number n, from 1."""
    for number, name in enumerate(names, 1):
        if name not in sys.modules:
            # A worker would fail in the same way, and reports it better.
            with suppress(BaseException):
                importlib.import_module(name)
        if not _may_fork():
            return -number
    gc.collect()
    gc.freeze()  # otherwise the garbage collectors of workers would write to all these objects and copy their pages
    return 1


def _may_fork() -> bool:
    """Whether a fork would have everything that runs here."""
    if threading.active_count() > 1:
        return False
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return False
    try:
        if len(os.listdir("/proc/self/task")) <= _NUM_THREADS:
            return True
        # OpenBLAS (NumPy, SciPy) starts threads when it is loaded, ends them before a fork, and restarts them.
        with open("/proc/self/maps", errors="replace") as file:
            return any("openblas" in line for line in file)
    except OSError:
        return False
