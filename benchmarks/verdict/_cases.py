"""Pipelines of which it is known what limits them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from spdl.pipeline._observe._sampling import has_gil

from ._work import AsyncSleep, Work

__all__ = ["CASES", "JOBS", "WITH_GIL", "Case", "Stage"]

Op: TypeAlias = "Work | AsyncSleep"

#: CPUs that this process may use.
N = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Stage:
    name: str
    op: Op
    concurrency: int = 1
    num_processes: int = 0  #: of the pool that it runs in
    executor_threads: int = 0  #: of the executor that it runs in
    region_workers: int = 0  #: of the region that it is
    batches: int = 0  #: makes lists of so many items before it


@dataclass(frozen=True)
class Case:
    """One pipeline.

    Attributes:
        name: The name in ``--cases``.
        causes: The labels that are right.
        stages: The stages between source and sink.
        blames: Names of the stages that are right; empty: any.
        source: The work of the source, for each item.
        consumer: The work of the consumer, for each item.
        num_threads: Worker threads; by default as many as the stages need.
        num_cpus: Number of CPUs that the process is limited to; 0: all.
        quota: CPU seconds per second that its control group allows; 0: no limit.
        is_mixture: Whether several kinds of work, or several slow stages, are mixed.
        has_gain: Whether the advice is applied, and the gain compared with the prediction.
        num_items: Number of items of the source; 0: no end.
    """

    name: str
    causes: tuple[str, ...]
    stages: Sequence[Stage]
    blames: tuple[str, ...] = ()
    source: Work = field(default=Work(()))
    consumer: Work = field(default=Work(()))
    num_threads: int = 0
    num_cpus: int = 0
    quota: float = 0.0
    is_mixture: bool = False
    has_gain: bool = False
    num_items: int = 0

    @property
    def pool_size(self) -> int:
        return self.num_threads or sum(stage.concurrency for stage in self.stages)


def _work(**parts: float) -> Work:
    return Work(tuple(parts.items()))


def _one(
    name: str,
    cause: str,
    concurrency: int,
    *,
    has_gain: bool = False,
    num_cpus: int = 0,
    quota: float = 0.0,
    **parts: float,
) -> Case:
    stages = [Stage("op", _work(**parts), concurrency)]
    return Case(name, (cause,), stages, ("op",), has_gain=has_gain, num_cpus=num_cpus, quota=quota)


def _six(name: str, cause: str, slow: Stage, *, has_gain: bool = False) -> Case:
    """A slow stage among five that sleep for a millisecond."""
    quick = [Stage(f"quick{k}", _work(sleep=1), 4) for k in range(5)]
    stages = [*quick[:3], slow, *quick[3:]]
    return Case(name, (cause,), stages, (slow.name,), has_gain=has_gain)


_QUICK = [Stage("op", _work(sleep=1), 4)]
_MIXED = [
    Case("mixed-issue", ("gil",), [
        Stage("fetch", _work(sleep=1), 4), Stage("decode", _work(spin=2), 4), Stage("store", _work(sleep=1), 4),
    ], ("decode",), is_mixture=True, has_gain=True),
    Case("mixed-sleep-sha", ("io",), [Stage("op", _work(sleep=10, sha=1), 4)], ("op",), is_mixture=True),
    Case("mixed-sleep-copy", ("io",), [Stage("op", _work(sleep=10, copy=1), 4)], ("op",), is_mixture=True),
    Case("mixed-sleep-spin-1", ("io", "cap"), [Stage("op", _work(sleep=6, spin=4), 1)], ("op",), is_mixture=True),
    Case("mixed-sleep-spin-8", ("gil",), [Stage("op", _work(sleep=2, spin=4), 8)], ("op",), is_mixture=True),
    Case("mixed-lock-sha", ("cap",), [Stage("op", _work(lock=6, sha=4), 1)], ("op",), is_mixture=True),
    Case("mixed-io-then-sha", ("io",), [
        Stage("fetch", _work(sleep=20), 4), Stage("decode", _work(sha=2), 1),
    ], ("fetch",), is_mixture=True, has_gain=True),
    Case("mixed-sha-then-io", ("cap",), [
        Stage("fetch", _work(sleep=5), 4), Stage("decode", _work(sha=8), 1),
    ], ("decode",), is_mixture=True),
    Case("mixed-sha-all-then-io", ("cpu",), [
        Stage("fetch", _work(sleep=2), 4), Stage("decode", _work(sha=10), N),
    ], ("decode",), is_mixture=True),
    Case("mixed-few-threads", ("io",), [Stage("op", _work(sleep=10), 8)], ("op",), num_threads=2, is_mixture=True,
         has_gain=True),
    Case("mixed-consumer", ("consumer",), [Stage("op", _work(sleep=4), 1)], consumer=_work(sleep=8), is_mixture=True),
    Case("mixed-spin-both", ("gil", "consumer"), [Stage("op", _work(spin=4), 2)], consumer=_work(spin=4),
         is_mixture=True),
]  # fmt: skip

#: With the labels of Python that has a GIL.
WITH_GIL = [
    _one("sleep-1", "io", 1, sleep=10, has_gain=True),
    _one("sleep-4", "io", 4, sleep=10, has_gain=True),
    _one("sleep-16", "io", 16, sleep=30),
    _one("select-2", "io", 2, select=10),
    Case("async-sleep-4", ("io",), [Stage("op", AsyncSleep(10), 4)], ("op",), has_gain=True),
    _one("spin-1", "gil", 1, spin=5),
    _one("spin-4", "gil", 4, spin=5, has_gain=True),
    _one("spin-8", "gil", 8, spin=1),
    _one("sha-1", "cap", 1, sha=5, has_gain=True),
    _one("sha-all", "cpu", N, sha=5),
    _one("sha-many", "oversubscribed", 4 * N, sha=5),
    _one("zlib-1", "cap", 1, zlib=5),
    _one("zlib-all", "cpu", N, zlib=5),
    _one("copy-1", "cap", 1, copy=5),
    _one("copy-all", "cpu", N, copy=5),
    _one("copy-many", "oversubscribed", 4 * N, copy=5),
    _one("lock-1", "cap", 1, lock=10, has_gain=True),
    _one("lock-4", "cap", 4, lock=10),
    Case("process-1", ("cap",), [Stage("op", _work(sha=10), 1, num_processes=1)], ("op",)),
    Case("source-sleep", ("source",), _QUICK, ("src",), source=_work(sleep=5)),
    Case("source-sha", ("source",), _QUICK, ("src",), source=_work(sha=5)),
    Case("consumer-sleep", ("consumer",), _QUICK, consumer=_work(sleep=5)),
    Case("consumer-sha", ("consumer",), _QUICK, consumer=_work(sha=5)),
    _one("one-cpu-sha-1", "cpu", 1, sha=5, num_cpus=1),
    _one("one-cpu-sha-4", "oversubscribed", 4, sha=5, num_cpus=1),
    _one("one-cpu-sleep", "io", 2, sleep=10, num_cpus=1),
    _one("quota-sha-1", "cpu", 1, sha=5, quota=0.5),
    _one("quota-sha-4", "oversubscribed", 4, sha=5, quota=0.5),
    # Threads that wait for the GIL are woken to ask for it, and then wait for the quota.
    Case("quota-spin-4", ("cpu", "oversubscribed"), [Stage("op", _work(spin=5), 4)], ("op",), quota=0.5),
    _one("quota-sleep", "io", 2, sleep=10, quota=0.5),
    _six("six-sleep", "io", Stage("slow", _work(sleep=10)), has_gain=True),
    _six("six-spin", "gil", Stage("slow", _work(spin=4), 4)),
    *_MIXED,
]


def _without_gil(case: Case) -> Case:
    """What limits Python code where threads share no GIL: its slots, or the CPUs."""
    if "gil" not in case.causes:
        return case
    slots = sum(stage.concurrency for stage in case.stages if stage.name in case.blames or not case.blames)
    causes = ("cap",) if slots < N else ("cpu", "oversubscribed")
    return replace(case, causes=(*causes, *(cause for cause in case.causes if cause != "gil")))


#: Twelve jobs as people write them, for ``jobs.py``.
_JOBS = [
    _one("job-python", "gil", 4, spin=4),
    _one("job-sha256", "oversubscribed", 16, sha=4),
    Case("job-consumer", ("consumer",), [
        Stage("op", _work(sleep=4), 2), Stage("collate", _work(sleep=1), 1, batches=4),
    ], consumer=_work(sleep=80), num_items=4 * 78),
    Case("job-source", ("source",), _QUICK, ("src",), source=_work(sleep=8)),
    _six("job-slow-stage", "io", Stage("slow", _work(sleep=12), 2)),
    Case("job-python-after-requests", ("gil",), [
        Stage("fetch", _work(sleep=10), 8), Stage("decode", _work(spin=4), 4),
    ], ("decode",)),
    Case("job-requests", ("io",), [Stage("fetch", _work(sleep=30), 16)], ("fetch",)),
    Case("job-coroutines", ("io",), [Stage("fetch", AsyncSleep(20), 8)], ("fetch",)),
    Case("job-executor", ("io",), [Stage("op", _work(sleep=10), 4, executor_threads=2)], ("op",)),
    Case("job-region", ("cap",), [Stage("op", _work(sha=8), 1, region_workers=1)], ("op",)),
    Case("job-balanced", ("io",), [Stage("fetch", _work(sleep=10), 2), Stage("store", _work(sleep=10), 2)]),
    Case("job-memory", ("memory", "cpu"), [Stage("op", _work(copy=5), N)], ("op",)),
]  # fmt: skip
if not has_gil():
    _JOBS = [_without_gil(case) for case in _JOBS]
JOBS = _JOBS
CASES = WITH_GIL if has_gil() else [_without_gil(case) for case in WITH_GIL]
