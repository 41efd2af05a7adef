"""The template process: it has imported what workers need, and forks them when it is asked.

It runs nothing of the user's but the import of modules, so what it forks are fresh interpreters in which these modules
have been imported, and no more. It has one thread, as a fork wants it; a module that starts others when it is imported
makes it unfit, and workers are then started without it.

Requests come over a socket, with descriptors: a header, and data. The other end of it is in ``_template``.
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

from ._transport import Link

__all__ = ["FORK", "HEADER", "IMPORT", "MOST_DESCRIPTORS", "REPLY", "Passed", "serve"]

#: Kind of request, number of descriptors, bytes of data.
HEADER: Final = struct.Struct("<BIQ")
#: Of a fork, the process id, or the negative number of an error. Of an import, see ``_import``.
REPLY: Final = struct.Struct("<q")
IMPORT: Final = 1  # data: names of modules, by pickle
FORK: Final = (
    2  # data: by pickle, name, whether a daemon, and the pickled call. The first descriptor gets the exit code
)
#: Linux passes 253 at once.
MOST_DESCRIPTORS: Final = 250
#: Without workers, and without being asked for any, a template ends after so many seconds.
_IDLE: Final = 120.0
#: Native threads of a template: the main one, and the one that watches the connection to the parent.
_NUM_THREADS: Final = 2


class Passed:
    """A descriptor on its way to a worker, in the place of ``multiprocessing``'s ``DupFd``."""

    #: Those of this worker.
    arrived: tuple[int, ...] = ()

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        """The descriptor, which is the caller's."""
        return Passed.arrived[self._index]


def serve(link: Link, control: socket.socket) -> None:
    """Body of the template: serve requests until the parent lets go, or asks for nothing any more.

    Args:
        link: To the parent. Its end is the template's.
        control: Where requests come.
    """
    # Not by way of multiprocessing's exit, which would end the workers. They have an owner.
    try:
        _Template(link, control).run()
    finally:
        os._exit(0)


class _Template:
    def __init__(self, link: Link, control: socket.socket) -> None:
        self._link = link
        self._control = control
        self._workers: dict[int, _Worker] = {}  # by what tells their end
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
        """Serve one request. False: there will be no more."""
        descriptors: list[int] = []
        try:
            header, descriptors = self._receive_header()
            if not header:
                return False
            kind, num_descriptors, size = HEADER.unpack(header)
            data = self._receive(size)
            if kind == IMPORT:
                reply = _import(pickle.loads(data))
            elif len(descriptors) != num_descriptors:  # no more can be opened here
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
                # Python 3.12 on counts native threads, and says that a fork beside them may deadlock.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
        except OSError as exc:
            os.close(status)
            return -(exc.errno or 1)
        assert process.pid is not None
        ending = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else os.dup(process.sentinel)
        # multiprocessing keeps some for itself, and leaves them open in the workers after this one.
        self._workers[ending] = _Worker(process, status, _open_descriptors() - before)
        self._poll.register(ending, select.POLLIN)
        return process.pid

    def _report_exit(self, ending: int) -> None:
        """A worker has ended: tell its exit code."""
        self._poll.unregister(ending)
        process, status, _ = self._workers.pop(ending)
        process.join()
        with suppress(OSError):  # nobody wants to know
            os.write(status, REPLY.pack(process.exitcode or 0))
        os.close(status)
        os.close(ending)
        process.close()

    def leave(self) -> None:
        """In a worker: let go of what is the template's."""
        self._control.close()
        for ending, worker in self._workers.items():
            for each in {ending, worker.status} | worker.descriptors:
                os.close(each)
        self._workers.clear()


class _Worker(NamedTuple):
    process: BaseProcess
    status: int  # where the exit code goes
    descriptors: set[int]  # that were opened for it


def _open_descriptors() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists the folder
            os.fstat(int(name))
            found.add(int(name))
    return found


class _Surroundings:
    """What ``multiprocessing`` says in a process of its own about where it comes from; a fork would change it."""

    def __init__(self) -> None:
        self.parent = multiprocessing.parent_process()
        self.start_method: Any = multiprocessing.get_start_method(allow_none=True)

    def restore(self) -> None:
        multiprocessing.set_start_method(self.start_method, force=True)
        # The one that started the template. There is no public way to say so; without, it is the template.
        if hasattr(multiprocessing.process, "_parent_process"):
            multiprocessing.process._parent_process = self.parent


def _run(template: _Template, descriptors: list[int], call: bytes, surroundings: _Surroundings) -> None:
    """Body of a worker."""
    template.leave()
    surroundings.restore()
    os.close(descriptors[0])
    Passed.arrived = tuple(descriptors[1:])
    target: Callable[..., None]
    target, args = pickle.loads(call)
    target(*args)


def _import(names: list[str]) -> int:
    """Import modules. 1: the process can be forked after that; -n: not since number n of them, from 1."""
    for number, name in enumerate(names, 1):
        if name not in sys.modules:
            # A worker would have the same trouble, and says it better.
            with suppress(BaseException):
                importlib.import_module(name)
        if not _may_fork():
            return -number
    gc.collect()
    gc.freeze()  # or the collectors of workers write to all these objects, and so make copies of their pages
    return 1


def _may_fork() -> bool:
    """Whether all of what runs here would be there in a fork too."""
    if threading.active_count() > 1:
        return False
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return False
    try:
        if len(os.listdir("/proc/self/task")) <= _NUM_THREADS:
            return True
        # OpenBLAS (NumPy, SciPy) starts threads when it is loaded, ends them before a fork, and starts them anew.
        with open("/proc/self/maps", errors="replace") as file:
            return any("openblas" in line for line in file)
    except OSError:
        return False
