"""Interpreters that have imported the package already: each runs one script as its main program, and ends as usual.

Starting Python and importing the package, perhaps torch too, takes ten times as long as most scripts. So a server does
that once and forks itself for each script. The fork has no other threads, pipelines or children of the
server's; it runs the script as ``__main__``, from its file, in a session of its own. Then it returns from the server's
main program, so that it ends as any script does: the interpreter prints its exception, runs what is registered for the
exit, and is finalised.

Not for scripts that check what is imported, what importing costs, or what only the start of an interpreter sets up
(variables such as ``PYTHONHASHSEED`` or ``OMP_NUM_THREADS``).
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from pkgutil import resolve_name

__all__ = ["NAME", "Gone", "Server", "kept_sockets", "serve", "server"]

#: In the command line of each server.
NAME = "tests.support.interpreters"
_NUMBER = struct.Struct("i")


class Gone(RuntimeError):
    """The server ended."""


class Server:
    """Starts an interpreter that imports ``modules`` and then waits for scripts.

    Args:
        modules: The names, or ``name:attribute`` if a slow import happens at an attribute.
        environment: The environment variables.
    """

    def __init__(self, modules: tuple[str, ...], environment: dict[str, str]) -> None:
        self._connection, theirs = socket.socketpair()
        code = f"from {NAME} import serve; serve({theirs.fileno()}, {modules!r})"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-X", "faulthandler", "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._is_broken = False

    def run(self, path: Path, folder: Path, environment: dict[str, str], timeout: float) -> "Run":
        """Run the script at ``path`` from a folder, with these variables; return when it has ended.

        One that has not ended after ``timeout`` seconds gets SIGABRT, upon which it shows its stacks, and then SIGKILL.
        """
        request = json.dumps({"path": str(path), "folder": str(folder), "environment": environment}).encode()
        with self._lock:
            run = Run(self._connection)
            try:
                socket.send_fds(self._connection, [_NUMBER.pack(len(request))], run.ends)
                self._connection.sendall(request)
                pid = _received_number(self._connection)
            except BaseException:
                self._is_broken = True
                run.close()
                raise
            finally:
                run.started()
            if not run.wait(timeout):
                run.hung = True
                for number in (signal.SIGABRT, signal.SIGKILL):
                    with suppress(ProcessLookupError):
                        os.killpg(pid, number)
                    if run.wait(5):
                        break
                run.close()  # a process that has left the group may still have it open
            return run

    def has_ended(self) -> bool:
        """Whether the server accepts no more requests."""
        return self._is_broken or self._process.poll() is not None

    def close(self) -> None:
        """End it."""
        self._connection.close()
        self._process.wait()

    def target(self) -> str:
        """The target of the descriptor of its connection."""
        return os.readlink(f"/proc/self/fd/{self._connection.fileno()}") if sys.platform == "linux" else ""


class Run:
    """One script that runs: what it printed so far, and its exit code once it has ended.

    It has ended when its process has, and no process has its output open.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.returncode: int | None = None
        self.hung = False
        self._connection = connection
        self._output: dict[int, bytearray] = {}
        self.ends: list[int] = []
        for _ in range(2):
            reader, writer = os.pipe()
            self._output[reader] = bytearray()
            self.ends.append(writer)
        self._readers = list(self._output)
        self._open = set(self._readers)

    def started(self) -> None:
        """The other process has its ends: close them here."""
        for each in self.ends:
            os.close(each)

    def wait(self, timeout: float) -> bool:
        """Wait for its end, for at most that many seconds; return whether it has ended."""
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for each in self._open:
                selector.register(each, selectors.EVENT_READ)
            if self.returncode is None:
                selector.register(self._connection, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    return False
                for key, _ in ready:
                    if key.fileobj is self._connection:
                        self.returncode = _received_number(self._connection)
                        selector.unregister(self._connection)
                    elif data := os.read(key.fd, 1 << 16):
                        self._output[key.fd] += data
                    else:
                        selector.unregister(key.fd)
                        self._open.discard(key.fd)
                        os.close(key.fd)
        return True

    def close(self) -> None:
        """Read no more of its output."""
        while self._open:
            os.close(self._open.pop())

    @property
    def output(self) -> tuple[str, str]:
        """Its output on stdout and stderr."""
        stdout, stderr = (self._output[each].decode(errors="replace") for each in self._readers)
        return stdout, stderr


_servers: dict[tuple[str, ...], Server] = {}


def server(modules: tuple[str, ...], environment: dict[str, str]) -> Server:
    """The server that has imported these modules; started at its first use."""
    found = _servers.get(modules)
    if found is not None and found.has_ended():
        found.close()
        found = None
    if found is None:
        found = _servers[modules] = Server(modules, environment)
    return found


def kept_sockets() -> frozenset[str]:
    """The targets of the descriptors that are kept for servers."""
    return frozenset(each.target() for each in _servers.values())


@atexit.register
def _end() -> None:
    while _servers:
        _servers.popitem()[1].close()


if hasattr(os, "register_at_fork"):
    # A forked child that runs exit handlers must neither end the parent's servers nor wait for them.
    os.register_at_fork(after_in_child=_servers.clear)


# -- in the server


def serve(descriptor: int, modules: tuple[str, ...]) -> None:
    """Fork a child for each requested script, which runs it; end when the connection is closed."""
    for name in modules:
        resolve_name(name)
    # Or the collector of each fork looks at all of them, and writes to them.
    gc.collect()
    gc.freeze()
    connection = socket.socket(fileno=descriptor)
    while True:
        head, ends, _, _ = socket.recv_fds(connection, _NUMBER.size, 2)
        if not head:
            os._exit(0)
        request = json.loads(_received(connection, _NUMBER.unpack(head)[0]))
        with warnings.catch_warnings():
            # NumPy has threads, and from Python 3.12 on a fork beside threads warns.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            connection.close()
            os.chdir(request["folder"])
            _become(Path(request["path"]), request["environment"], ends)
            return
        for each in ends:
            os.close(each)
        connection.sendall(_NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(path: Path, environment: dict[str, str], ends: list[int]) -> None:
    """In the child: run the script as the main program."""
    os.setsid()
    for end, standard in zip(ends, (1, 2), strict=True):
        os.dup2(end, standard)
        os.close(end)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = [str(path)]
    sys.path[0] = str(path.parent)
    main = vars(sys.modules["__main__"])
    for name in [each for each in main if not each.startswith("__")]:
        del main[name]
    main["__file__"] = str(path)
    main["__loader__"] = SourceFileLoader("__main__", str(path))
    main["__cached__"] = None
    exec(compile(path.read_bytes(), str(path), "exec"), main)


def _received_number(connection: socket.socket) -> int:
    (number,) = _NUMBER.unpack(_received(connection, _NUMBER.size))
    return int(number)


def _received(connection: socket.socket, num_bytes: int) -> bytes:
    found = b""
    while len(found) < num_bytes:
        data = connection.recv(num_bytes - len(found))
        if not data:
            raise Gone(f"the server of interpreters ended; its last output is on stderr ({NAME})")
        found += data
    return found
