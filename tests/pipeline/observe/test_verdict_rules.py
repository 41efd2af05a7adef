"""The rules of verdicts, on made-up facts: which cause, which stage, which change, which rate."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline._observe._advice import TERMS, User
from spdl.pipeline._observe._facts import Facts, StageFacts
from spdl.pipeline._observe._judging import decide, verdict_of
from spdl.pipeline._observe._verdict import StageShares
from spdl.pipeline._records import Place


def stage(
    name: str = "op",
    *,
    limit: int = 4,
    fill: float = 1.0,
    score: float = 1.0,
    runs_on: Place = "pool",
    num_calls: int = 1000,
    slowdown: float | None = None,
    **shares: float,
) -> StageFacts:
    """A stage; what is not given of its shares is I/O."""
    named: dict[str, Any] = {key: shares.get(key, 0.0) for key in ("cpu", "queue", "gil", "lock")}
    io = shares.get("io", 1.0 - sum(named.values()))
    held = shares.get("held", 0.0)
    return StageFacts(
        name=name,
        runs_on=runs_on,
        limit=limit,
        num_calls=num_calls,
        load=fill * limit,
        score=score,
        shares=StageShares(name, **named, io=io, held=held),
        slowdown=slowdown,
    )


def facts(*stages: StageFacts, **changes: Any) -> Facts:
    """Facts of a pipeline of 8 CPUs that makes 100 items/s, and whose consumer waits most of the time."""
    base = Facts(
        seconds=10.0,
        num_items=1000,
        num_calls=1000,
        rate=100.0,
        wait=0.9,
        num_threads=16,
        cpus=8.0,
        cpus_used=1.0,
        cpus_outside=0.0,
        machine_cpus=8,
        has_gil=True,
        gil_held=sum(each.held for each in stages),
        is_sampled=True,
        stages=stages or (stage(),),
    )
    return replace(base, **changes)


SLOW = stage("slow")
WAITING = stage("waiting", score=0.1, fill=0.2)

CASES = {
    # what is missing
    "too short": (facts(seconds=4.9), "unsure", None),
    "too few calls": (facts(num_calls=199, seconds=9.9), "unsure", None),
    "few calls beside others": (facts(num_calls=50, seconds=5.0, cpus_outside=7), "io", "op"),
    "too few calls beside others": (facts(num_calls=49, seconds=5.0, cpus_outside=7), "unsure", None),
    "few calls, but long": (facts(num_calls=20, seconds=10.0), "io", "op"),
    "no calls": (facts(stage(fill=0.0)), "unsure", None),
    "nothing came out": (facts(num_items=0, rate=0.0, num_calls=3), "unsure", "op"),
    # the consumer comes first, whatever else is wrong
    "consumer": (facts(wait=0.01), "consumer", None),
    "consumer with a full buffer that waits for its first batch": (
        facts(wait=0.05, sink_occupied=0.9, num_items=78, num_calls=78, seconds=6.0),
        "consumer",
        None,
    ),
    "consumer of few batches": (facts(wait=0.01, num_items=78, num_calls=78, seconds=6.0), "consumer", None),
    "consumer of hardly any batch": (facts(wait=0.01, num_items=8, num_calls=8, seconds=6.0), "unsure", None),
    "consumer, GIL held": (facts(stage(cpu=1.0, held=0.9), wait=0.01), "consumer", None),
    # waiting for a CPU
    "oversubscribed": (facts(stage(limit=16, cpu=0.5, queue=0.5), cpus_used=7.9), "oversubscribed", "op"),
    "queue, with no more threads than CPUs": (facts(stage(limit=8, cpu=0.7, queue=0.3), cpus_used=7.9), "cpu", "op"),
    # a quota of CPU time
    "quota, one thread": (facts(stage(limit=1, cpu=0.5, queue=0.5), cpus=0.5, cpus_used=0.5, throttled=1), "cpu", "op"),
    "quota, many threads": (
        facts(stage(cpu=0.1, queue=0.9), cpus=0.5, cpus_used=0.5, throttled=1),
        "oversubscribed",
        "op",
    ),
    "quota that others of the group use": (
        facts(stage(limit=2, cpu=0.4, queue=0.6), cpus=2, cpus_used=0.8, throttled=0.9),
        "cpu",
        "op",
    ),
    "quota on a machine that others use": (
        facts(stage(limit=1, cpu=0.5, queue=0.5), cpus=0.5, cpus_used=0.5, throttled=1, cpus_outside=6),
        "cpu",
        "op",
    ),
    "quota, Python": (
        facts(stage(cpu=0.1, queue=0.2, gil=0.7, held=0.95), cpus=0.5, cpus_used=0.5, throttled=1),
        "cpu",
        "op",
    ),
    "quota that is not used up": (facts(stage(cpu=0.05), cpus=0.5, cpus_used=0.2, throttled=0.1), "io", "op"),
    "Python on one CPU": (facts(stage(cpu=0.25, gil=0.75, held=0.95), cpus=1, cpus_used=1), "cpu", "op"),
    "queue by others": (facts(stage(cpu=0.5, queue=0.5), cpus_used=3, cpus_outside=5), "cap", "op"),
    "queue by others, free slots": (
        facts(stage(cpu=0.5, queue=0.5, fill=0.5), cpus_used=3, cpus_outside=5),
        "unsure",
        "op",
    ),
    "queue by others, as many threads as CPUs": (
        facts(stage(limit=8, cpu=0.5, queue=0.5), cpus_used=4, cpus_outside=4),
        "cpu",
        "op",
    ),
    "queue by others, more threads than CPUs": (
        facts(stage(limit=32, cpu=0.1, queue=0.9), cpus_used=4, cpus_outside=4),
        "oversubscribed",
        "op",
    ),
    "queue by others, Python": (
        facts(stage(cpu=0.2, queue=0.5, gil=0.3, held=0.79), cpus_used=1, cpus_outside=6),
        "gil",
        "op",
    ),
    "queue by others, a crowd that is interrupted with the GIL": (
        facts(stage(limit=32, cpu=0.06, queue=0.7, gil=0.24, held=0.65), cpus_used=2, cpus_outside=6),
        "oversubscribed",
        "op",
    ),
    "queue by others, I/O": (facts(stage(queue=0.3, cpu=0.05), cpus_used=0.2, cpus_outside=7), "io", "op"),
    "queue by others, source": (
        facts(stage("src", runs_on="source", limit=1, cpu=0.5, queue=0.5), WAITING, cpus_used=1, cpus_outside=7),
        "source",
        "src",
    ),
    "queue by others, not sampled": (
        facts(stage(cpu=0.5, queue=0.5), cpus_used=3, cpus_outside=5, is_sampled=False),
        "unsure",
        "op",
    ),
    "queue, nobody knows why": (facts(stage(cpu=0.5, queue=0.5), cpus_used=3), "cap", "op"),
    "more GIL than queue": (facts(stage(cpu=0.2, queue=0.3, gil=0.5, held=0.9), cpus_used=7.9), "gil", "op"),
    # the GIL
    "GIL waits": (facts(stage(cpu=0.7, gil=0.3, held=0.5)), "gil", "op"),
    "GIL held": (facts(stage(cpu=1.0, limit=1, held=0.9)), "gil", "op"),
    "GIL held by another stage": (
        facts(stage("waits", gil=0.6), stage("holds", cpu=1.0, held=0.9, fill=0.3, score=0.5)),
        "gil",
        "holds",
    ),
    "GIL held elsewhere": (facts(stage(gil=0.5), gil_held=0.9, gil_elsewhere=0.8), "gil", None),
    "GIL, holder unknown": (
        facts(stage("waits", gil=0.6), stage("runs", cpu=1.0, fill=0.3, score=0.5), gil_held=None),
        "gil",
        "runs",
    ),
    "GIL of the source": (
        facts(stage("src", runs_on="source", limit=1, cpu=1.0, held=0.95), WAITING),
        "gil",
        "src",
    ),
    "no GIL": (facts(stage(cpu=0.5, limit=1), has_gil=False, gil_held=None), "cap", "op"),
    # CPUs
    "cpu": (facts(stage(cpu=1.0, limit=8), cpus_used=7.5), "cpu", "op"),
    "cpu of native threads": (facts(stage(lock=1.0, limit=1), cpus_used=7.5), "cpu", "op"),
    "cpu of another stage": (
        facts(stage("waits", cpu=0.9, fill=0.1), stage("works", cpu=1.0, fill=2.0, score=0.9), cpus_used=7.5),
        "cpu",
        "works",
    ),
    "quota": (facts(stage(cpu=1.0, limit=2), cpus=1.5, cpus_used=1.45), "cpu", "op"),
    "cpu by others": (facts(stage(cpu=0.9, queue=0.1), cpus_used=4, cpus_outside=4), "cap", "op"),
    # memory
    "memory": (facts(stage(cpu=1.0, limit=8, slowdown=1.5), cpus_used=7.5), "memory", "op"),
    "memory, CPUs free": (facts(stage(cpu=0.9, slowdown=1.3)), "memory", "op"),
    "no slower beside others": (facts(stage(cpu=1.0, limit=8, slowdown=1.2), cpus_used=7.5), "cpu", "op"),
    "slower because of others": (
        facts(stage(cpu=0.9, queue=0.1, slowdown=2.0), cpus_used=4, cpus_outside=4),
        "cap",
        "op",
    ),
    "slower, but it waits": (facts(stage(cpu=0.2, slowdown=2.0)), "io", "op"),
    # the source
    "source": (facts(stage("src", runs_on="source", limit=1), WAITING), "source", "src"),
    "source with native code": (facts(stage("src", runs_on="source", limit=1, cpu=1.0), WAITING), "source", "src"),
    # slots
    "io": (facts(SLOW, WAITING), "io", "slow"),
    "io of the loop": (facts(stage(runs_on="loop")), "io", "op"),
    "io while CPUs are busy": (facts(stage(cpu=0.2), cpus_used=7.5), "io", "op"),
    "cap, native code": (facts(stage(cpu=1.0, limit=1)), "cap", "op"),
    "cap, locks": (facts(stage(lock=0.9, cpu=0.1)), "cap", "op"),
    "cap, processes": (facts(stage(runs_on="process", lock=1.0)), "cap", "op"),
    "cap, region": (facts(stage(runs_on="region", limit=1, fill=4.0, lock=1.0)), "cap", "op"),
    "cap, mixed": (facts(stage(cpu=0.5)), "cap", "op"),
    "few threads": (facts(stage(fill=0.5), num_threads=2), "io", "op"),
    "free slots": (facts(stage(fill=0.5)), "unsure", "op"),
}


@pytest.mark.parametrize("name", CASES)
def test_cause_and_stage(name: str) -> None:
    """Each rule, and which comes first where several apply."""
    given, cause, blamed = CASES[name]
    found = decide(given)
    assert (found.cause, None if found.stage is None else found.stage.name) == (cause, blamed)
    verdict = verdict_of(given)
    assert (verdict.cause, verdict.stage) == (cause, blamed)
    assert verdict.reason
    assert verdict.advice
    assert str(verdict).count("\n") == 1


def test_unsure_says_what_is_missing() -> None:
    """How long it has measured, and what to do."""
    text = str(verdict_of(facts(seconds=2.0, num_calls=50)))
    assert "a verdict needs 5 s and 200 calls, or 10 s; measured are 2.0 s and 50 calls" in text
    assert "call verdict(seconds=5)" in text
    assert "measure a longer run" in str(verdict_of(facts(seconds=2.0, state="ended")))
    stuck = verdict_of(facts(num_items=0, rate=0.0, num_calls=3))
    assert "nothing came out in 10.0 s, while calls of op ran" in stuck.reason
    assert "they hang, or take longer" in stuck.advice
    other = verdict_of(facts(stage(fill=0.5, cpu=0.5, queue=0.5), cpus_used=3, cpus_outside=5))
    assert "other processes use 5.0 of 8 CPUs" in other.reason
    assert other.predicted_rate is None


def test_io_advice_goes_to_the_next_bound() -> None:
    """More calls, as many as the next stage can use; more threads if they are too few."""
    after = stage("decode", limit=2, fill=0.5, score=0.3)
    verdict = verdict_of(facts(stage("fetch", limit=4), after))
    assert verdict.arguments == {"concurrency": 8}
    assert verdict.predicted_rate == pytest.approx(200.0)
    assert verdict.next_bound == "decode, 2 at once"
    assert "concurrency=8 (now 4) for fetch" in verdict.advice
    few = verdict_of(facts(stage("fetch", limit=4), after, num_threads=5))
    assert few.arguments == {"concurrency": 8, "num_threads": 10}
    assert "Expected 200 items/s (next bound: decode, 2 at once)" in str(few)


def test_io_advice_is_limited() -> None:
    """Nobody knows what a disk does with forty times the calls: four times at most, and no bound is named."""
    verdict = verdict_of(facts(stage(limit=1), cpus_used=0.01, gil_held=0.0))
    assert verdict.arguments == {"concurrency": 4}
    assert verdict.predicted_rate == pytest.approx(400.0)
    assert verdict.next_bound is None


def test_few_threads_advice() -> None:
    """If the pool holds a stage back, more threads are the advice, not more slots."""
    verdict = verdict_of(facts(stage(limit=8, fill=0.25), num_threads=2))
    assert verdict.arguments == {"num_threads": 8}
    assert verdict.predicted_rate == pytest.approx(400.0)


def test_cap_advice_stops_at_the_cpus() -> None:
    """A call at a time that needs a whole CPU: as many as there are CPUs."""
    verdict = verdict_of(facts(stage(limit=1, cpu=1.0), cpus=2.0, cpus_used=1.0, machine_cpus=2))
    assert verdict.arguments == {"concurrency": 2}
    assert verdict.predicted_rate == pytest.approx(200.0)
    assert verdict.next_bound == "CPU, 2 of 2"


def test_gil_advice() -> None:
    """Processes, as many as there are CPUs, and a call that waits for each; the prediction has the cost of a call."""
    one = stage("decode", limit=4, fill=0.25, cpu=1.0, held=1.0)
    verdict = verdict_of(facts(one, cpus=2.0, cpus_used=1.0, machine_cpus=2))
    assert verdict.arguments == {"max_workers": 2, "concurrency": 4}
    assert "pipe(decode, executor=ProcessPoolExecutor(2), concurrency=4)" in verdict.advice
    assert verdict.predicted_rate == pytest.approx(200.0 / 1.03)
    assert verdict.next_bound == "CPU, 2 of 2"


def test_the_guide_shows_what_is_said() -> None:
    """The output in docs/guides/slow.md is the verdict of such numbers, but for its numbers."""
    one = stage("decode", fill=0.25, cpu=0.3, gil=0.6, held=0.95)
    waiting = [stage(name, fill=0.9, gil=0.65, score=0.5) for name in ("store", "fetch")]
    found = facts(waiting[1], one, waiting[0], cpus=2.0, cpus_used=1.1, machine_cpus=2, rate=512.0, wait=0.99)
    text = str(verdict_of(replace(found, num_items=2560, num_calls=2560)))
    guide = (Path(__file__).parents[3] / "docs/guides/slow.md").read_text(encoding="utf-8")
    shown = guide.partition("```text\n")[2].partition("\n```")[0]
    assert re.sub(r"\d+", "#", text).replace("of fetch", "of store") == re.sub(r"\d+", "#", shown)


def test_gil_advice_for_short_calls() -> None:
    """Calls that are not longer than a transfer to another process stay."""
    one = stage("decode", limit=4, fill=0.25, cpu=1.0, held=1.0, num_calls=100_000)
    verdict = verdict_of(facts(one, rate=10_000.0, num_calls=100_000))
    assert verdict.arguments == {}
    assert "too short for other processes" in verdict.advice
    assert verdict.predicted_rate == verdict.rate


def test_cpus_that_others_use_are_not_promised() -> None:
    """On a busy machine, the bound is what is left, or half of all, and the verdict says who has the rest."""
    one = stage("decode", limit=4, fill=0.5, cpu=1.0, held=1.0)
    verdict = verdict_of(facts(one, cpus=8.0, cpus_used=2.0, cpus_outside=3.0))
    assert verdict.predicted_rate == pytest.approx(250.0, rel=0.05)
    assert verdict.next_bound == "CPU, of which other processes use 3.0 of 8"
    half = verdict_of(facts(one, cpus_used=2.0, cpus_outside=7.5))
    assert half.predicted_rate == pytest.approx(200.0, rel=0.05)
    full = verdict_of(facts(one, cpus_used=4.0, cpus_outside=4.0))
    assert full.predicted_rate == full.rate
    assert "pipe(decode, executor=ProcessPoolExecutor(8)" in full.advice


def test_gil_held_elsewhere_advice() -> None:
    """If the pipeline does not hold the GIL, it is the pipeline that moves."""
    verdict = verdict_of(facts(stage(gil=0.5), gil_held=0.9, gil_elsewhere=0.8))
    assert "run_pipeline_in_subprocess" in verdict.advice
    assert "held outside of the pipeline 80 %" in verdict.reason


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (facts(stage(cpu=1.0, limit=8), cpus_used=7.5), "make op cheaper"),
        (facts(stage(limit=16, cpu=0.5, queue=0.5), cpus_used=7.9), "build(num_threads=8)"),
        (facts(wait=0.01), "nothing in the pipeline"),
    ],
)
def test_no_gain_is_promised_where_no_argument_helps(given: Facts, part: str) -> None:
    """All CPUs are busy, or the consumer is the limit: the predicted rate is the present one."""
    verdict = verdict_of(given)
    assert verdict.predicted_rate == verdict.rate
    assert part in verdict.advice
    assert "Expected" not in str(verdict)


def test_source_prediction_is_the_next_bound() -> None:
    """Without the source, the slowest stage is the limit."""
    source = stage("src", runs_on="source", limit=1)
    verdict = verdict_of(facts(source, stage(limit=1, fill=0.5, score=0.5)))
    assert verdict.predicted_rate == pytest.approx(200.0)
    assert verdict.next_bound == "op, 1 at once"


def test_consumer_verdict_tells_the_headroom() -> None:
    """What the pipeline could do if the consumer took more."""
    verdict = verdict_of(facts(stage(limit=1, fill=0.5), wait=0.0))
    assert "The next bound would be op, 1 at once, at 200 items/s." in str(verdict)


def test_estimates_say_so() -> None:
    """Without samples the sentence begins with it."""
    verdict = verdict_of(facts(is_sampled=False))
    assert verdict.is_estimated
    assert str(verdict).startswith("estimated: ")


def test_quota_that_is_used_up_is_named() -> None:
    """Not CPUs are missing, but what the control group allows."""
    throttled = facts(stage(limit=1, cpu=0.5, queue=0.5), cpus=0.5, cpus_used=0.5, throttled=0.97)
    assert "quota of its control group is used up in 97 % of the periods" in verdict_of(throttled).reason


IN_ALL_SLOTS = facts(stage("load", limit=4), num_threads=4)
IN_ALL_THREADS = facts(stage("load", limit=32, fill=0.125), num_threads=4)
PYTHON = facts(stage("load", limit=4, fill=0.25, cpu=1.0, held=1.0), cpus=2.0, cpus_used=1.0, num_threads=4)
CROWDED = facts(stage("load", limit=16, cpu=0.5, queue=0.5), cpus_used=7.9)
LOOP = facts(stage(gil=0.5), gil_held=0.9, gil_elsewhere=0.8)
SOURCE = facts(stage("src", runs_on="source", limit=1), WAITING)
MEMORY = facts(stage("load", cpu=0.9, slowdown=1.5))


def test_a_region_gets_more_workers() -> None:
    """It has no ``concurrency``, and the calls that its workers run are not its limit."""
    verdict = verdict_of(facts(stage(runs_on="region", limit=1, fill=4.0, lock=1.0), cpus_used=4.0))
    assert "more workers for op, 2 times as many: resize()" in verdict.advice
    assert verdict.arguments == {}
    assert verdict.predicted_rate == pytest.approx(200.0)
    assert verdict.next_bound == "CPU, 8 of 8"


@pytest.mark.parametrize(
    ("user", "given", "part", "arguments"),
    [
        ("pipeline", IN_ALL_SLOTS, "concurrency=16 (now 4) for load, num_threads=16 (now 4)", None),
        ("loader", IN_ALL_SLOTS, "num_threads=16 (now 4)", {"num_threads": 16}),
        ("torch", IN_ALL_SLOTS, "num_workers=16 (now 4)", {"num_workers": 16}),
        ("pipeline", IN_ALL_THREADS, "num_threads=16 (now 4)", {"num_threads": 16}),
        ("loader", IN_ALL_THREADS, "num_threads=16 (now 4)", {"num_threads": 16}),
        ("torch", IN_ALL_THREADS, "num_workers=16 (now 4)", {"num_workers": 16}),
        ("loader", PYTHON, "build a pipeline in place of the loader, and run load in processes: pipe(load, ", {}),
        ("torch", PYTHON, "load in processes: workers='process', num_workers=2; or call native", {"num_workers": 2}),
        ("loader", CROWDED, "num_threads=8, one thread for each CPU", {"num_threads": 8}),
        ("torch", CROWDED, "num_workers=8, one thread for each CPU", {"num_workers": 8}),
        ("loader", LOOP, "iterate_in_subprocess(): Python code outside", {}),
        ("torch", LOOP, "workers='process': Python code outside", {}),
        ("loader", SOURCE, "read in the preprocessor, which can run several calls at once", {}),
        ("torch", SOURCE, "read in collate_fn, which can run several calls at once", {}),
        ("loader", MEMORY, "lower the num_threads: calls of load slow each other down", {}),
        ("torch", MEMORY, "lower the num_workers: calls of load slow each other down", {}),
    ],
)
def test_advice_names_the_arguments_that_the_user_has(
    user: User, given: Facts, part: str, arguments: dict[str, int] | None
) -> None:
    """Loaders have one number, of threads; how many calls a stage of theirs may run is nothing that they show."""
    verdict = verdict_of(given, TERMS[user])
    assert part in verdict.advice
    assert verdict.arguments == (arguments if arguments is not None else {"concurrency": 16, "num_threads": 16})
    if user != "pipeline":
        for word in ("build(", "(now 32)", "for load"):
            assert word not in verdict.advice


def test_threads_are_kept_for_calls_that_wait() -> None:
    """With one thread for each CPU, calls that only wait would hold threads that others compute on."""
    crowd = stage("load", limit=16, cpu=0.5, queue=0.5)
    verdict = verdict_of(facts(crowd, stage("fetch", score=0.1, limit=4, fill=0.5, io=1.0), cpus_used=7.9))
    assert verdict.cause == "oversubscribed"
    assert verdict.advice.startswith("build(num_threads=10), one thread for each CPU and 2 for calls that wait: load")
    assert verdict.arguments == {"num_threads": 10}
    few = verdict_of(facts(crowd, stage("fetch", score=0.1, limit=4, fill=0.05, io=1.0), cpus_used=7.9))
    assert few.arguments == {"num_threads": 8}


def test_bounds_are_in_the_words_of_the_user() -> None:
    """The number of threads is that of workers to whoever uses torch's arguments."""
    given = facts(stage(limit=8, fill=0.5), wait=0.0, num_threads=4)
    assert verdict_of(given, TERMS["torch"]).next_bound == "num_workers, 4, at 100 items/s"
    assert verdict_of(given).next_bound == "num_threads, 4, at 100 items/s"


def test_a_probable_verdict_says_so_with_the_shares() -> None:
    """Beside busy neighbours, what was seen of the calls is told, and who has the CPUs."""
    verdict = verdict_of(facts(stage(cpu=0.2, queue=0.5, gil=0.3, held=0.79), cpus_used=1, cpus_outside=6))
    assert verdict.is_probable
    assert str(verdict).startswith("probably, op is GIL-bound: it holds the GIL 79 % of the time")
    assert "other processes use 6.0 of 8 CPUs, and calls of op are on a CPU 20 % of their time, and wait 50 % for one, "
    assert not verdict_of(facts()).is_probable


def test_rates_name_their_unit() -> None:
    """A pipeline with an aggregate makes batches."""
    verdict = verdict_of(facts(unit="batches"))
    assert verdict.unit == "batches"
    assert "the pipeline makes 100 batches/s, the consumer could take 1000 batches/s" in verdict.reason
    assert "Expected 400 batches/s" in str(verdict)


def test_a_short_run_does_not_contradict_the_counters() -> None:
    """What the table marks is not denied by the sentence below it."""
    assert str(verdict_of(facts(seconds=1.2))).startswith("the cause is unsure: a verdict needs 5 s and 200 calls")


# -- stages with workers of their own


def away(workers: int, *, concurrency: int, cpus: float, runs_on: Place = "process", limit: int = 0) -> StageFacts:
    """A stage in an executor or region of that size, whose workers use so many CPUs."""
    base = stage(runs_on=runs_on, limit=limit or min(workers, concurrency), lock=1.0)
    return replace(base, num_workers=workers, concurrency=concurrency, cpus_away=cpus)


@pytest.mark.parametrize(
    ("one", "changes", "cause", "part", "arguments"),
    [
        # as many processes as CPUs, which compute: no argument gives more
        (away(2, concurrency=4, cpus=1.9), {"cpus_used": 1.9}, "cpu", "make op cheaper", {}),
        (away(2, concurrency=4, cpus=1.2), {"cpus_used": 1.2, "cpus_outside": 0.7}, "cpu", "make op cheaper", {}),
        (away(2, concurrency=8, cpus=1.9, runs_on="region"), {"cpus_used": 1.9}, "cpu", "make op cheaper", {}),
        # fewer: one for each CPU
        (
            away(1, concurrency=1, cpus=0.95),
            {"cpus_used": 0.95},
            "cap",
            "2 workers in the executor of op (now 1), and concurrency=4 (now 1) for op",
            {"max_workers": 2, "concurrency": 4},
        ),
        (
            away(1, concurrency=1, cpus=0.95, runs_on="region", limit=1),
            {"cpus_used": 0.95},
            "cap",
            "2 workers for op (now 1): resize(2), or that number in to()",
            {},
        ),
        # a larger pool than calls: more calls, no more processes
        (
            away(8, concurrency=1, cpus=0.05),
            {"cpus_used": 0.05},
            "cap",
            "concurrency=16 (now 1) for op",
            {"concurrency": 16},
        ),
        # threads of an executor that wait
        (
            replace(stage(limit=2, runs_on="executor"), num_workers=2, concurrency=16),
            {"cpus_used": 0.05},
            "io",
            "8 workers in the executor of op (now 2)",
            {"max_workers": 8},
        ),
        # threads of an executor that compute
        (
            replace(stage(limit=16, runs_on="executor", cpu=0.12, queue=0.88), num_workers=16, concurrency=16),
            {"cpus_used": 1.95},
            "oversubscribed",
            "2 workers in the executor of op (now 16), one for each CPU",
            {"max_workers": 2},
        ),
    ],
    ids=["cpu", "cpu beside others", "region", "one", "one in a region", "calls", "threads", "threads that compute"],
)  # fmt: skip
def test_advice_knows_the_size_of_executors_and_regions(
    one: StageFacts, changes: Any, cause: str, part: str, arguments: dict[str, int]
) -> None:
    """On two CPUs: how many workers there are, and that more than one a CPU do not compute faster."""
    verdict = verdict_of(facts(one, cpus=2.0, machine_cpus=2, num_threads=4, **changes))
    assert verdict.cause == cause
    assert part in verdict.advice
    assert verdict.arguments == arguments
