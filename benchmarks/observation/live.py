"""What does it cost to be looked at, and how soon does one see something?

    python benchmarks/observation/live.py [--quick] [--json PATH] [--require]

Three figures that are no ratio of two costs: CPU time that a process uses more while `spdl top` looks at it, the time
to the first screen of `spdl top`, and how late a stall is reported. See README.md.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Figures, the most that is allowed, the factor for people, and the unit.
REQUIRED = {
    "monitor": ("CPU that `spdl top` costs the process it looks at", 0.005, 100, " %"),
    "first_screen": ("first screen of `spdl top`", 1.0, 1, " s"),
    "stall_late": ("a stall is reported later than its time by", 1.0, 1, " s"),
}
_STALL_SECONDS = 0.5


def _pipeline() -> Any:
    """Six stages that sleep: what is measured is not lost in their work."""
    from spdl.pipeline import PipelineBuilder

    def work(item: int) -> int:
        time.sleep(0.02)
        return item

    builder = PipelineBuilder().add_source(range(1 << 40))
    for number in range(6):
        builder.pipe(work, concurrency=2, name=f"stage{number}")
    return builder.add_sink().build(num_threads=12)


def _top(pid: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "spdl", "top", str(pid)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)


def _wait_for_screen(top: "subprocess.Popen[str]") -> None:
    assert top.stdout is not None
    for line in top.stdout:
        if "stage5" in line:
            return
    raise RuntimeError(f"spdl top ended with {top.wait()} before its first screen")


def _leave(top: "subprocess.Popen[str]") -> None:
    top.kill()
    top.communicate()


def _cpu_while_reading(pipeline: Any, seconds: float) -> float:
    """CPU time of this process, all its threads, per second."""
    began, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds:
        pipeline.get_item()
    return (time.process_time() - cpu) / (time.monotonic() - began)


def measure_monitor(seconds: float, num_rounds: int) -> list[float]:
    """CPU time per second with a reader, minus that without, for each round. Everything else is the same."""
    differences = []
    for _ in range(num_rounds):
        with (pipeline := _pipeline()).auto_stop():
            _cpu_while_reading(pipeline, 0.5)  # until the buffers are in their usual state
            alone = _cpu_while_reading(pipeline, seconds)
            with pipeline.monitor():
                top = _top(os.getpid())
                try:
                    _wait_for_screen(top)
                    watched = _cpu_while_reading(pipeline, seconds)
                finally:
                    _leave(top)
            differences.append(watched - alone)
    return differences


def measure_first_screen(num_rounds: int) -> list[float]:
    """From the start of the command to the last line of the first screen's table."""
    times = []
    with (pipeline := _pipeline()).auto_stop(), pipeline.monitor():
        pipeline.get_item()
        for _ in range(num_rounds):
            began = time.monotonic()
            top = _top(os.getpid())
            try:
                _wait_for_screen(top)
                times.append(time.monotonic() - began)
            finally:
                _leave(top)
    return times


class _Arrival(logging.Handler):
    """When the first record came."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.has_come = threading.Event()
        self.time = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if not self.has_come.is_set():
            self.time = time.monotonic()
            self.has_come.set()


def measure_stalls(num_rounds: int) -> list[float]:
    """From the moment at which the time of a stall is over to the record in the log."""
    from spdl.pipeline import PipelineBuilder

    logger = logging.getLogger("spdl.pipeline")
    late = []
    for _ in range(num_rounds):
        release, arrival, began = threading.Event(), _Arrival(), [0.0]

        def hang(item: int, release: threading.Event = release, began: list[float] = began) -> int:
            began[0] = time.monotonic()
            release.wait(60)
            return item

        logger.addHandler(arrival)
        logger.propagate = False
        builder = PipelineBuilder().add_source([0]).pipe(hang).add_sink()
        try:
            with (pipeline := builder.build(num_threads=1, stall_timeout=_STALL_SECONDS)).auto_stop():
                waiting = threading.Thread(target=pipeline.get_item)
                waiting.start()
                if not arrival.has_come.wait(30):
                    raise RuntimeError("no stall was reported in 30 s")
                release.set()
                waiting.join()
        finally:
            release.set()
            logger.removeHandler(arrival)
            logger.propagate = True
        late.append(arrival.time - began[0] - _STALL_SECONDS)
    return late


def main(arguments: list[str]) -> int:
    from benchmarks._contest.machine import describe_run

    parser = argparse.ArgumentParser(prog="benchmarks/observation/live.py", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all measurements there")
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    options = parser.parse_args(arguments)
    num_rounds, seconds = (1, 2.0) if options.quick else (7, 10.0)
    measures: dict[str, Callable[[], list[float]]] = {
        "monitor": lambda: measure_monitor(seconds, num_rounds),
        "first_screen": lambda: measure_first_screen(num_rounds),
        "stall_late": lambda: measure_stalls(num_rounds),
    }
    found: dict[str, list[float]] = {}
    has_missed = False
    print("| figure | required | measured (min to max) | verdict |\n| --- | ---: | ---: | ---: |", flush=True)
    for name, measure in measures.items():
        title, limit, factor, unit = REQUIRED[name]
        values = found[name] = measure()
        has_passed = median(values) <= limit
        has_missed = has_missed or not has_passed
        middle, low, high = (f"{factor * each:.2f}" for each in (median(values), min(values), max(values)))
        verdict = "PASS" if has_passed else "MISS"
        print(f"| {title} | <= {factor * limit:g}{unit} | {middle}{unit} ({low} to {high}) | {verdict} |", flush=True)
    if options.json is not None:
        about = describe_run("benchmarks/observation/live.py", arguments)
        options.json.write_text(json.dumps({"environment": about, "measured": found}, indent=1) + "\n")
    return 1 if options.require and has_missed else 0


if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
