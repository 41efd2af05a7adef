"""Runs one pipeline in a process of its own, and prints its verdict as JSON.

    python -m benchmarks.verdict._one NAME SECONDS [CONCURRENCY [NUM_THREADS [PROCESSES]]]

The further arguments apply an advice: 0 for those that stay.
"""

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._observe._machine import read_cpu

from ._cases import CASES, Case
from ._quota import NoQuotaError, limited
from ._work import Endless, numbers

__all__ = ["main"]


def _changed(case: Case, blamed: str, concurrency: int, num_threads: int, num_processes: int) -> Case:
    stages = [
        replace(
            stage,
            concurrency=concurrency or stage.concurrency,
            num_processes=num_processes or (stage.num_processes and (concurrency or stage.num_processes)),
        )
        if stage.name == blamed
        else stage
        for stage in case.stages
    ]
    return replace(case, stages=stages, num_threads=num_threads or case.pool_size)


def _run(case: Case, seconds: float) -> dict[str, Any]:
    """Read for that long, and return the verdict and the rate."""
    if case.num_cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: case.num_cpus])
    builder: Any = PipelineBuilder().add_source(Endless(case.source))
    pools = []
    for stage in case.stages:
        options: dict[str, Any] = {"concurrency": stage.concurrency, "name": stage.name}
        if stage.num_processes:
            pool = ProcessPoolExecutor(stage.num_processes, mp_context=get_context("spawn"))
            list(pool.map(stage.op, range(2 * stage.num_processes)))
            pools.append(pool)
            options["executor"] = pool
        builder.pipe(stage.op, **options)
    pipeline = builder.add_sink(10).build(num_threads=case.pool_size)
    consume, has_cost = case.consumer, bool(case.consumer.parts)
    with pipeline.auto_stop():
        _read(pipeline, consume, has_cost, 0.5)  # until the buffers are in their usual state
        pipeline.verdict()
        before, began = pipeline.stats(), read_cpu()
        _read(pipeline, consume, has_cost, seconds)
        verdict, after, ended = pipeline.verdict(), pipeline.stats(), read_cpu()
    for pool in pools:
        pool.shutdown(cancel_futures=True)
    outside = 0.0
    if began.machine is not None and ended.machine is not None:
        outside = (ended.machine - began.machine - ended.own + began.own) / (ended.time - began.time)
    return {
        "cause": verdict.cause,
        "stage": verdict.stage,
        "reason": verdict.reason,
        "advice": verdict.advice,
        "arguments": dict(verdict.arguments),
        "predicted_rate": verdict.predicted_rate,
        "next_bound": verdict.next_bound,
        "is_estimated": verdict.is_estimated,
        "rate": (after.num_items - before.num_items) / (after.elapsed - before.elapsed),
        "cpus_outside": outside,
        "shares": [
            {name: getattr(shares, name) for name in ("stage", "cpu", "queue", "gil", "lock", "io", "held")}
            for shares in verdict.shares
        ],
    }


def _read(pipeline: Any, consume: Any, has_cost: bool, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pipeline.get_item()
        if has_cost:
            consume()


def main(arguments: list[str]) -> None:
    name, seconds, *change = arguments
    [case] = [case for case in CASES if case.name == name]
    if change:
        blamed, *arguments_of_advice = change
        case = _changed(case, blamed, *map(int, arguments_of_advice))
    for each in (case.source, case.consumer, *(stage.op for stage in case.stages)):
        each.prepare()
    try:
        with limited(case.quota) if case.quota else nullcontext():
            found = {**_run(case, float(seconds)), "numbers": numbers()}
    except NoQuotaError as error:
        found = {"skipped": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
