"""Runs one pipeline in a process of its own, and prints its verdict as JSON.

    python -m benchmarks.verdict._one [--once] NAME SECONDS [BLAMED CONCURRENCY [NUM_THREADS [PROCESSES]]]

``--once`` asks for the verdict only once, when the pipeline has ended. The further arguments apply an advice: 0 for
those that stay.
"""

import json
import os
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._observe._sampling import read_cpu
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from ._cases import CASES, JOBS, Case
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


def _run(case: Case, seconds: float, *, is_once: bool) -> dict[str, Any]:
    """Read for that long, and return the verdict and the rate."""
    if case.num_cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: case.num_cpus])
    builder: Any = PipelineBuilder().add_source(Endless(case.source, case.num_items))
    pools: list[Any] = []
    for stage in case.stages:
        options: dict[str, Any] = {"concurrency": stage.concurrency, "name": stage.name}
        if stage.num_processes:
            pool = ProcessPoolExecutor(stage.num_processes, mp_context=get_context("spawn"))
            list(pool.map(stage.op, range(2 * stage.num_processes)))
            pools.append(pool)
            options["executor"] = pool
        if stage.executor_threads:
            pools.append(ThreadPoolExecutor(stage.executor_threads))
            options["executor"] = pools[-1]
        if stage.batches:
            builder.aggregate(stage.batches)
        if stage.region_workers:
            builder.to(ProcessPoolExecutorConfig(max_workers=stage.region_workers))
        builder.pipe(stage.op, **options)
        if stage.region_workers:
            builder.to(MAIN_PROCESS)
    pipeline = builder.add_sink(10).build(num_threads=case.pool_size)
    consume, has_cost = case.consumer, bool(case.consumer.parts)
    cost_before = _native_cpu()
    if case in JOBS and not is_once:
        pipeline.verdict()
    with pipeline.auto_stop():
        if case not in JOBS:
            _read(pipeline, consume, has_cost, 0.5)  # until the buffers are in their usual state
            pipeline.verdict()
        before, began = pipeline.stats(), read_cpu()
        _read(pipeline, consume, has_cost, seconds)
        if not is_once:
            verdict = pipeline.verdict()
        cost = _native_cpu() - cost_before
        after, ended = pipeline.stats(), read_cpu()
    if is_once:
        verdict = pipeline.verdict()
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
        "is_probable": verdict.is_probable,
        "text": str(verdict),
        "sampling": cost / after.elapsed,
        "rate": (after.num_items - before.num_items) / (after.elapsed - before.elapsed),
        "cpus_outside": outside,
        "shares": [
            {name: getattr(shares, name) for name in ("stage", "cpu", "queue", "gil", "lock", "io", "held")}
            for shares in verdict.shares
        ],
    }


def _read(pipeline: Any, consume: Any, has_cost: bool, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with suppress(EOFError):
        while time.monotonic() < deadline:
            pipeline.get_item()
            if has_cost:
                consume()


def _native_cpu() -> float:
    """CPU seconds of the threads of this process that Python did not start: of the sampler, and of NumPy's library."""
    if not os.path.isdir("/proc/self/task"):
        return 0.0
    known = {thread.native_id for thread in threading.enumerate()}
    others = [int(name) for name in os.listdir("/proc/self/task") if int(name) not in known]
    # The clock of a thread by its number, as pthread_getcpuclockid makes it: CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
    return sum(time.clock_gettime((~number << 3) | 6) for number in others)


def main(arguments: list[str]) -> None:
    is_once = arguments[0] == "--once"
    name, seconds, *change = arguments[is_once:]
    [case] = [case for case in (*CASES, *JOBS) if case.name == name]
    if change:
        blamed, *arguments_of_advice = change
        case = _changed(case, blamed, *map(int, arguments_of_advice))
    for each in (case.source, case.consumer, *(stage.op for stage in case.stages)):
        each.prepare()
    try:
        with limited(case.quota) if case.quota else nullcontext():
            found = {**_run(case, float(seconds), is_once=is_once), "numbers": numbers()}
    except NoQuotaError as error:
        found = {"skipped": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
