"""Pipelines in a subprocess have states here: what was sent and not read is not consumed."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from spdl.dataloader._holding import hold
from spdl.pipeline import (
    PipelineBuilder,
    PipelineStateError,
    WorkerError,
    iterate_in_subprocess,
    run_pipeline_in_subprocess,
)
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from spdl.resume import ResumeError
from tests.pipeline.resume.iterating import OnThread
from tests.support.running import TIMEOUT


def thrice(item: int) -> Iterator[int]:
    yield from (10 * item, 10 * item + 1, 10 * item + 2)


def same(item: int) -> int:
    return item


def refuse(item: int) -> int:
    raise ValueError(item)


def start(*, continuous: bool = False, **options: Any) -> Any:
    builder: Any = PipelineBuilder().add_source(list(range(5)), continuous=continuous).pipe(thrice).add_sink(2)
    return run_pipeline_in_subprocess(builder, num_threads=2, resumable=True, **options)


def read(items: Any, num: int) -> list[int]:
    return [value for value, _ in zip(iter(items), range(num), strict=False)]


@pytest.mark.slow
def test_a_run_goes_on_in_another_process() -> None:
    """After the items that were read here, not those that were made there; again in the next epoch."""
    whole = [10 * item + part for item in range(5) for part in range(3)]
    items = start(continuous=True)
    first = items.state_dict()
    found = list(items) + [next(iterator) for iterator in [iter(items)] for _ in range(4)]
    state = items.state_dict()
    del items
    items = start(continuous=True)
    items.load_state_dict(state)
    assert items.state_dict() == state
    found += list(items)
    assert found == 2 * whole
    assert list(items) == whole
    assert first != items.state_dict()
    with pytest.raises(PipelineStateError, match="has been iterated"):
        items.load_state_dict(state)


@pytest.mark.slow
def test_a_state_of_another_pipeline_is_refused_there() -> None:
    """The error is raised here, and the process goes on."""
    items = start()
    state = items.state_dict()
    with pytest.raises(ResumeError, match="stage 1 was pipe thrice and is pipe thrice generator"):
        items.load_state_dict({"spdl": state["spdl"].replace(',"generator"', "")})
    assert len(list(items)) == 15
    assert '"ended":true' in items.state_dict()["spdl"]


@pytest.mark.slow
def test_regions_and_failures_there() -> None:
    """Its workers are children of this process; what has failed is not tried again, and a failure ends the process."""
    builder: Any = PipelineBuilder().add_source(list(range(6))).to(ProcessPoolExecutorConfig(1), buffer_size=2)
    builder.pipe(same).to(MAIN_PROCESS).add_sink(2)
    items: Any = run_pipeline_in_subprocess(builder, num_threads=2, resumable=True)
    iterator = iter(items)
    found = [next(iterator) for _ in range(2)]
    state = items.state_dict()
    del items, iterator
    items = run_pipeline_in_subprocess(builder, num_threads=2, resumable=True)
    items.load_state_dict(state)
    assert found + list(items) == list(range(6))
    builder = PipelineBuilder().add_source([1, 2]).pipe(refuse, max_failures=0).add_sink(1)
    items = run_pipeline_in_subprocess(builder, num_threads=2, resumable=True)
    with pytest.raises(WorkerError, match="failed 1 times"):
        list(items)
    with pytest.raises(PipelineStateError):
        items.state_dict()


@pytest.mark.parametrize("continuous", [False, True])
def test_an_iteration_that_is_given_up_is_dropped(continuous: bool) -> None:
    """The rest of an epoch counts as consumed; one that is not continuous begins its source anew."""
    config: Any = PipelineBuilder().add_source(list(range(5)), continuous=continuous).add_sink(2).get_config()
    items = OnThread(config, {"resumable": True, "num_threads": 1}, 2)
    with items.auto_stop():
        assert [items.get_item(timeout=TIMEOUT) for _ in range(2)] == [0, 1]
        given_up, items.iterator = items.iterator, None
        assert items.get_item(timeout=TIMEOUT) == 0
        with pytest.raises(PipelineStateError, match="a newer iterator"):
            list(given_up)  # type: ignore[arg-type]
        state = items.state_dict()
    epochs = json.loads(state["spdl"])["sources"][0]["epochs"]
    assert epochs[0]["epoch"] == 1
    assert epochs[0]["holes"] == [[1, epochs[0]["high"]]]


def test_what_is_refused_starts_no_process() -> None:
    """A pipeline that is not exact; a buffer without limit, which leaves the other process without answers."""
    batches: Any = PipelineBuilder().add_source([1]).aggregate(2)
    builder = batches.pipe(thrice).add_sink(1)
    with pytest.raises(ValueError, match="Put it before the aggregate"):
        run_pipeline_in_subprocess(builder, resumable=True)
    with pytest.raises(ValueError, match="buffer_size must be >= 1 for a resumable pipeline"):
        start(buffer_size=0)
    with pytest.raises(ValueError, match="resumable must be"):
        run_pipeline_in_subprocess(builder, resumable="no")  # type: ignore[arg-type]


class Words:
    """Has no positions and no state: it is passed over from the start."""

    def __iter__(self) -> Iterator[str]:
        yield from ("a", "b", "c", "d")


@pytest.mark.slow
def test_an_iterable_in_a_subprocess_goes_on() -> None:
    """After what was read here; a source of any kind, in this iteration and the next."""
    kinds: dict[Any, list[Any]] = {Words: list("abcd"), partial(range, 10, 20): list(range(10, 20))}
    for fn, whole in kinds.items():
        items: Any = iterate_in_subprocess(fn, buffer_size=2, resumable=True)
        found = list(islice(items, 3))
        state = items.state_dict()
        items = iterate_in_subprocess(fn, buffer_size=2, resumable=True)
        items.load_state_dict(state)
        assert items.state_dict() == state
        assert found + list(items) == whole
        assert list(items) == whole


def test_iterables_that_cannot_be_resumed_are_refused() -> None:
    """A set has no order; a plain iterable was not made resumable."""
    with pytest.raises(ValueError, match="resumable must be"):
        iterate_in_subprocess(Words, resumable="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="buffer_size must be >= 1"):
        iterate_in_subprocess(Words, buffer_size=0, resumable=True)
    with pytest.raises(TypeError, match="fn must be callable"):
        iterate_in_subprocess([1], resumable=True)  # type: ignore[arg-type]
    with pytest.raises(WorkerError, match="a set has no order"):
        iterate_in_subprocess(partial(set, "abc"), resumable=True)


class Committing:
    """A user's iterable with a ``commit`` of its own, such as that of a message queue."""

    def __iter__(self) -> Iterator[int]:
        yield from range(50)

    def commit(self, *args: Any) -> None:
        raise AssertionError("nobody has asked for it")


def test_a_commit_of_the_user_is_not_called() -> None:
    """Only pipelines that were made resumable are told what was read."""
    assert list(iterate_in_subprocess(Committing, buffer_size=2)) == list(range(50))


def read_ahead(items: Any, num: int) -> list[int]:
    """What a thread that prefetches does, all of an iteration ahead of a user who takes ``num`` items."""
    iterator: Any = iter(items)
    holding = hold(iterator)
    assert holding is not None
    ready: Queue[tuple[int | None, Any]] = Queue()

    def work() -> None:
        for item in iterator:
            ready.put((item, holding.token()))
        ready.put((None, holding.token()))

    thread = Thread(target=work)
    thread.start()
    taken = []
    for _ in range(num):
        item, token = ready.get(timeout=TIMEOUT)
        holding.commit(token)
        taken += [] if item is None else [item]
        items.state_dict()  # while the thread reads
    thread.join(TIMEOUT)
    return taken


@pytest.mark.parametrize("num", [4, 16])
def test_what_was_read_ahead_is_not_consumed(num: int) -> None:
    """Not before the user has it, though the process was told to go on."""
    items = start(buffer_size=3)
    taken = read_ahead(items, num)
    state = items.state_dict()
    other = start()
    other.load_state_dict(state)
    expected = sorted(value for item in range(5) for value in thrice(item))
    rest = list(other)
    assert sorted(taken + (rest if num <= 15 else [])) == expected
    if num == 4:
        assert sorted(items) == expected, "the next iteration is an ordinary one"
        assert json.loads(items.state_dict()["spdl"])["sources"][0]["ended"]
