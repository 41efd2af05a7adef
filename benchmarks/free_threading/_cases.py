"""The cases, the two interpreters, and the bars."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._contest.contest import Case, Contest, Peer, Required
from benchmarks._contest.environments import Environment
from benchmarks._contest.photos import make_photos
from benchmarks._contest.required import Ratio

__all__ = ["CONTEST", "MISSING", "NUM_THREADS", "contest_with", "free_threaded_python"]

GIL, FREE = "gil", "free"
NUM_THREADS = (1, 2, 4, 8, 16)
NUM_PLAIN = (1, 2)
NUM_BUSY = 4
MISSING = (
    "There is no free-threaded Python to compare with: set SPDL_FREE_THREADED_PYTHON to one that has NumPy and for "
    "which the native part of SPDL was built (README.md says how)."
)

_ADAPTER = "benchmarks.free_threading._work"


def free_threaded_python() -> str | None:
    """The interpreter that the environment variable names, or the newest one on the path."""
    given = os.environ.get("SPDL_FREE_THREADED_PYTHON")
    return given or shutil.which("python3.14t") or shutil.which("python3.13t")


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    num_photos, scale = (8, 10) if is_quick else (64, 1)

    def photos(threads: int) -> Any:
        return lambda: {"num_threads": threads, "num_items": 32 // scale, "paths": make_photos("web", num_photos)}

    num_python, num_noop = 640 // scale, 4000 // scale
    return [
        *(
            Case(
                f"python-{threads}",
                f"0.2 ms of Python an item, {threads} threads",
                {"num_threads": threads, "num_items": num_python},
                per=num_python,
            )
            for threads in NUM_THREADS
        ),
        *(
            Case(
                f"plain-{threads}",
                f"the same without SPDL: {threads} plain threads",
                {"num_threads": threads, "num_items": num_python},
                per=num_python,
            )
            for threads in NUM_PLAIN
        ),
        *(
            Case(
                f"images-{threads}",
                f"batches of 8 photographs, {threads} threads",
                photos(threads),
                per=32 // scale,
            )
            for threads in NUM_THREADS
        ),
        Case("noop", "an item that needs no work", {"num_threads": 2, "num_items": num_noop}, per=num_noop),
        Case(
            "noop-busy",
            f"the same beside {NUM_BUSY} busy processes",
            {"num_threads": 2, "num_items": num_noop, "num_busy": NUM_BUSY},
            per=num_noop,
        ),
        Case(
            "noop-polled",
            "the same while two threads ask for the statistics",
            {"num_threads": 2, "num_items": num_noop // 4, "num_polling": 2},
            per=num_noop // 4,
        ),
    ]


REQUIRED: tuple[Required, ...] = (
    Ratio("Python without the GIL: 1 thread / 2 threads", ("python-1", FREE), ("python-2", FREE), at_least=1.8),
    Ratio(
        "Python without the GIL, 2 threads: pipeline / plain threads",
        ("python-2", FREE),
        ("plain-2", FREE),
        at_most=1.1,
    ),
    Ratio("no-op item beside other load: without the GIL / with", ("noop-busy", FREE), ("noop-busy", GIL), at_most=2.0),
    Ratio("no-op item while polled: without the GIL / with", ("noop-polled", FREE), ("noop-polled", GIL), at_most=2.0),
)


def contest_with(python: str) -> Contest:
    return Contest(
        name="free_threading",
        question="What does a pipeline gain from Python without the GIL, and what does the engine cost there?",
        ours=GIL,
        unit="an item",
        peers=[Peer(GIL, _ADAPTER), Peer(FREE, _ADAPTER, Environment("free-threaded", python=python))],
        make_cases=make_cases,
        required=REQUIRED,
        rounds=7,
        warm_up=1,
    )


_python = free_threaded_python()
CONTEST = None if _python is None else contest_with(_python)
