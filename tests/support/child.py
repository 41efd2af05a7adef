"""Run a script in its own Python interpreter, with a time limit: for behaviour that shows only when a process ends.

A script that hangs does not hang the test: it prints the stacks of all its threads (``faulthandler``) and is killed,
with all processes that it started. Warnings are errors in the child too, so that unclosed resources show on stderr.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import spdl.pipeline
from tests.support import interpreters
from tests.support.timeouts import TIMEOUT

__all__ = ["TIMEOUT", "Ended", "environment", "run_child", "run_file"]


#: Output of the interpreter, asyncio and threading after an improper shutdown.
COMPLAINTS = (
    "Exception ignored",
    "Fatal Python error",
    "Exception in thread",
    "was never awaited",
    "Task was destroyed",
    "ResourceWarning",
    "InternalError",
    "leaked",
)

#: What a forked child says at its exit in some releases of CPython, 3.13.5 for one: it waits for the resource tracker,
#: which is its parent's child.
_NOISE = re.compile(
    r"Exception ignored in: <function ResourceTracker\.__del__ at .*>\nTraceback .*\n(?:  .*\n)+ChildProcessError: .*\n"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child: ``returncode`` is negative if a signal ended it."""

    returncode: int | None
    stdout: str
    stderr: str

    def check(self, stdout: str = "", *, returncode: int = 0) -> None:
        """Fail unless it ended with ``returncode``, with ``stdout`` as its output and nothing on stderr."""
        assert (self.returncode, self.stdout.split(), self.stderr) == (returncode, stdout.split(), ""), self

    def check_raised(self, *words: str, stdout: str = "") -> None:
        """Fail unless an uncaught exception ended it and its traceback, which has ``words``, is all of stderr."""
        assert self.returncode == 1, self
        assert self.stdout.split() == stdout.split(), self
        self.check_traceback(*words)

    def check_interrupted(self, stdout: str = "") -> None:
        """Fail unless an uncaught ``KeyboardInterrupt`` ended it, with its traceback as all that stderr shows."""
        assert self.returncode == -signal.SIGINT, self
        assert self.stdout.split() == stdout.split(), self
        self.check_traceback("KeyboardInterrupt")

    def check_traceback(self, *words: str) -> None:
        """Fail unless stderr is a traceback that has ``words``."""
        self.check_no_complaint()
        assert self.stderr.lstrip(" +|").startswith(("Traceback ", "Exception Group Traceback ")), self
        for each in words:
            assert each in self.stderr, self

    def check_no_complaint(self) -> None:
        """Fail after an improper shutdown."""
        for complaint in COMPLAINTS:
            assert complaint not in self.stderr, self

    def __str__(self) -> str:
        return f"exit code {self.returncode}\n-- stdout\n{self.stdout[-4000:]}\n-- stderr\n{self.stderr[-8000:]}"


def environment() -> dict[str, str]:
    """The variables for a child that imports the package as this process does, and ``tests``."""
    path = os.pathsep.join([str(Path(spdl.pipeline.__file__).parents[2]), str(Path(__file__).parents[2])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def run_child(script: str, *, timeout: float = TIMEOUT, fresh: bool = False) -> Ended:
    """Run ``script`` as the main module of its own interpreter and wait for its end.

    It can import the package as this process does, and ``tests``. It has its own session and process group.

    Args:
        script: The source text; common indentation is removed.
        timeout: The seconds until it prints its stacks and is killed, which fails the test.
        fresh: Whether it needs an interpreter that has imported nothing yet, as scripts that name ``sys.modules`` do.
    """
    with tempfile.TemporaryDirectory() as folder:
        main = Path(folder) / "main.py"
        main.write_text(textwrap.dedent(script), encoding="utf-8")
        return run_file(main, timeout=timeout, fresh=fresh)


def run_file(
    path: Path,
    *,
    folder: Path | None = None,
    timeout: float = TIMEOUT,
    fresh: bool = False,
    may_warn: str | None = None,
) -> Ended:
    """The same for an existing file.

    Args:
        path: The path of the script.
        folder: The working directory; that of this process by default.
        timeout: As for ``run_child``.
        fresh: As for ``run_child``.
        may_warn: A filter for warnings that are not errors; needs a new interpreter too.
    """
    script, folder = path.read_text(encoding="utf-8"), folder or Path.cwd()
    if not fresh and may_warn is None and "sys.modules" not in script and hasattr(os, "fork"):
        run = interpreters.server(_imports(script), environment()).run(path, folder, environment(), timeout)
        stdout, stderr = run.output
        ended, hung = Ended(run.returncode, stdout, stderr), run.hung
    else:
        ended, hung = _run_fresh(path, folder, timeout, may_warn or "error")
    if hung:
        pytest.fail(f"it has not ended after {timeout:g} s\n{ended}")
    return replace(ended, stderr=_NOISE.sub("", ended.stderr))


def _imports(script: str) -> tuple[str, ...]:
    """The slow imports that a script probably has."""
    if "torch" in script and find_spec("torch") is not None:
        return "spdl.pipeline:PipelineBuilder", "spdl.io:load_video", "numpy", "torch", "torch.utils.data"
    if "numpy" in script or "spdl.io" in script or "torch" in script:
        return "spdl.pipeline:PipelineBuilder", "spdl.io:load_video", "numpy"
    return ("spdl.pipeline:PipelineBuilder",)


def _run_fresh(path: Path, folder: Path, timeout: float, may_warn: str) -> tuple[Ended, bool]:
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-W", may_warn, "-X", "faulthandler", str(path)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as child:
        hung = False
        for seconds, number in ((timeout, signal.SIGABRT), (5, signal.SIGKILL)):
            try:
                stdout, stderr = child.communicate(timeout=seconds)
                break
            except subprocess.TimeoutExpired:
                # The process, or one that it started, is still alive. faulthandler answers the first signal with all
                # stacks. A watchdog inside the process would itself hang the exit of a forked child.
                hung = True
                os.killpg(child.pid, number)
        else:
            stdout, stderr = child.communicate()
    return Ended(child.returncode, stdout, stderr), hung
