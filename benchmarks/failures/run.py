"""What does a failed item cost, and what does each way of being told of it add?

Every second item fails, in one thread; the log is off, because its handlers would be most of the time. The difference
to ``skip`` is what a callback, a substitute or a line in the quarantine file adds per failure. Times are CPU time of
the process, the least of all rounds: a failure waits for nothing, and other programs hardly disturb it. Required: a
line adds at most 50 us. ::

    python benchmarks/failures/run.py [--quick] [--require]
"""

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

from spdl.pipeline import PipelineBuilder

__all__ = ["main"]

#: Microseconds that a line in the quarantine file may add.
MOST = 50.0


def refuse_odd(item: int) -> int:
    if item % 2:
        raise ValueError(f"item {item} is odd")
    return item


def seconds_per_failure(num_items: int, pipe: dict[str, Any], build: dict[str, Any]) -> float:
    """Run a pipeline and return its CPU time, divided by the number of failures."""
    builder = PipelineBuilder().add_source(range(num_items)).pipe(refuse_odd, **pipe).add_sink(100)
    pipeline = builder.build(num_threads=1, **build)
    began = process_time()
    with pipeline.auto_stop():
        for _ in pipeline:
            pass
    return (process_time() - began) / (num_items // 2)


def main() -> int:
    """Measure the ways in turn, and print what each adds."""
    parser = argparse.ArgumentParser(description="What a failed item costs.")
    parser.add_argument("--quick", action="store_true", help="few items, to see that it runs")
    parser.add_argument("--require", action="store_true", help="exit with 1 if a line costs more than it may")
    options = parser.parse_args()
    quick = options.quick
    logging.disable(logging.CRITICAL)
    num_items, num_rounds = (2_000, 3) if quick else (20_000, 9)
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "skip": ({}, {}),
            "substitute": ({"on_error": lambda item, error: -item}, {}),
            "on_failure": ({}, {"on_failure": lambda event: None}),
            "quarantine": ({}, {"quarantine": Path(folder) / "bad.jsonl"}),
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(num_rounds):
            for way, (pipe, build) in ways.items():
                times[way].append(1e6 * seconds_per_failure(num_items, pipe, build))
    least = {way: min(measured) for way, measured in times.items()}
    added = {way: round(each - least["skip"], 1) for way, each in least.items()}
    print(json.dumps({"us_per_failure": {way: round(each, 1) for way, each in least.items()}, "added": added}))
    return 1 if options.require and added["quarantine"] > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
