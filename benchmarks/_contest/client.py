"""The client of a worker: starts it, sends it commands, ends it."""

import json
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, Self

from .environments import REPOSITORY, Environment, environ_of, interpreter_of

__all__ = ["Client", "PeerError", "run_python"]

#: Seconds that a peer may take for one command. Only a peer that hangs exceeds it.
ANSWER_TIMEOUT = 180.0


class PeerError(RuntimeError):
    """A peer failed at a command, ended, or hung."""


class Client:
    """A running worker (see ``worker.serve``). Owns the process: leaving the ``with`` block waits for its end.

    Args:
        name: The name in messages.
        environment: The environment in which it runs.
        module: The module to run, and its arguments.

    Raises:
        SetupError: The environment could not be made.
    """

    def __init__(self, name: str, environment: Environment, *module: str) -> None:
        self.name = name
        self._process = start_process(environment, *module)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        try:
            # Also closes both pipes. The worker ends at the end of its stdin.
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            # Not ``communicate``: processes that it started may hold the pipes.
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def ask(self, command: str, **arguments: object) -> Any:
        """The worker's answer to a command.

        Raises:
            PeerError: The worker raised (the message has its traceback), ended, or did not answer in ANSWER_TIMEOUT.
        """
        process = self._process
        assert process.stdin is not None  # it is a pipe, like stdout
        assert process.stdout is not None
        watchdog = threading.Timer(ANSWER_TIMEOUT, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = process.stdout.readline()  # it may have printed why it ends
        finally:
            watchdog.cancel()
            watchdog.join()
        asked = f"{self.name}: {command} {str(arguments)[:200]}"
        if not line:
            code = process.wait()
            raise PeerError(
                f"{asked}: its process ended with exit code {code} and no answer"
                f" (it is killed after {ANSWER_TIMEOUT:.0f} s); what it printed is above"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{asked} failed:\n{answer['error']}")
        return answer["ok"]


def start_process(environment: Environment, *module: str) -> subprocess.Popen[str]:
    """A fresh interpreter that runs a module, with its arguments; its stdin and its stdout are pipes."""
    return subprocess.Popen(
        [interpreter_of(environment), "-m", *module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=REPOSITORY,
        env=environ_of(environment),
    )


def run_python(name: str, environment: Environment, code: str) -> Any:
    """Run code in a fresh interpreter of the environment, and parse its output as JSON.

    Raises:
        PeerError: The interpreter exited with an error.
    """
    command = [interpreter_of(environment), "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environ_of(environment), cwd=REPOSITORY, check=False
    )
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        raise PeerError(f"{name}: a fresh interpreter exited with {done.returncode}; what it printed is above")
    return json.loads(done.stdout)
