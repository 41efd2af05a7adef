"""Two ranks of a script, as ``torchrun`` starts them, in forks of a process that has imported torch already."""

import os
import runpy
import signal
import sys
from importlib import import_module
from typing import Any

__all__ = ["main"]

WORLD_SIZE = 2


class _Killed:
    """A standard output that kills this process as soon as it has written a text."""

    def __init__(self, stream: Any, text: str) -> None:
        self._stream = stream
        self._text = text

    def write(self, text: str) -> None:
        self._stream.write(text)
        if self._text in text:
            self._stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def flush(self) -> None:
        self._stream.flush()


def main(script: str, *runs: tuple[str, str | None]) -> int:
    """Run the script several times, one after the other; return 0 if all is as expected.

    Each run has a folder, and what rank 0 is killed at when it has printed that; then the others are killed.
    Behind what a run prints there is a line of dashes.
    """
    import_module("torch._dynamo")  # takes a second; DistributedDataParallel and optimizers do it
    for folder, kill_at in runs:
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            _leave(_run(script, kill_at))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != 0:
            return code
        print("\n---", flush=True)
    return 0


def _run(script: str, kill_at: str | None) -> int:
    children: list[int] = []
    ports: list[int] = []
    for rank in range(WORLD_SIZE):
        port, tell = os.pipe()
        child = os.fork()
        if child == 0:
            for each in (tell, *ports):
                os.close(each)
            with open(port, "rb") as file:
                number = int(file.read())
            _become(rank, script, number, kill_at)
            _leave(0)
        os.close(port)
        children.append(child)
        ports.append(tell)

    # Threads begin here, behind the forks.
    store = import_module("torch.distributed").TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for tell in ports:
        os.write(tell, b"%d" % store.port)
        os.close(tell)
    codes = []
    for child in children:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if kill_at is not None and len(codes) == 1:
            for other in children[1:]:
                os.kill(other, signal.SIGKILL)  # it waits for rank 0, or has failed
    return int(codes[0] != -signal.SIGKILL if kill_at is not None else any(codes))


def _become(rank: int, script: str, port: int, kill_at: str | None) -> None:
    """Run the script as this rank, with the variables that torchrun sets. The launcher has the store."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(WORLD_SIZE),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    if rank == 0 and kill_at is not None:
        sys.stdout = _Killed(sys.stdout, kill_at)
    runpy.run_path(script, run_name="__main__")


def _leave(code: int) -> None:
    """End without taking the interpreter down, which takes long in a fork with torch."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
