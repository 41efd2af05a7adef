"""Where and when numbers were measured, without which they cannot be compared."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .environments import REPOSITORY

__all__ = ["describe_run", "revision_of"]


def describe_run(script: str, arguments: list[str]) -> dict[str, Any]:
    """Date, command, revision, interpreter and machine. No paths or names of the machine itself.

    Args:
        script: The path of the benchmark, relative to the repository.
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", script, *arguments]),
        "revision": revision_of(REPOSITORY),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": _usable_cores(),
        "load_average_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def revision_of(tree: Path) -> str | None:
    """Commit of a checkout, with ``+changes`` if ``src`` differs from it; ``None`` outside a git checkout."""

    def git(*arguments: str) -> str | None:
        try:
            command = ["git", "-C", str(tree), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:  # no git
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short", "HEAD")
    if commit is None:
        return None
    return commit + ("+changes" if git("status", "--porcelain", "--", "src") else "")
