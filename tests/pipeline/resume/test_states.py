"""States of pipelines: what they say, and which of them are refused."""

import json
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, PipelineStateError
from spdl.resume import ResumeError
from spdl.resume._document import decode, encode
from spdl.resume._elastic import combine
from spdl.resume._ranges import Ranges
from tests.support.running import TIMEOUT, await_event, build_of


def document(state: dict[str, str]) -> Any:
    return json.loads(state["spdl"])


def epochs(state: dict[str, str], source: int = 0) -> Any:
    return document(state)["sources"][source]["epochs"]


def changed(state: dict[str, str], change: Callable[[Any], object]) -> dict[str, str]:
    """The state with a change in its document."""
    found = document(state)
    change(found)
    return {"spdl": json.dumps(found)}


def build(source: Any = None, *stages: Any, sink: int = 3, **options: Any) -> Pipeline[Any]:
    builder = build_of(list(range(10)) if source is None else source, *stages, sink=sink)
    return builder.build(num_threads=2, resumable=True, **options)  # type: ignore[no-any-return]


def read(pipeline: Pipeline[Any], num: int) -> list[Any]:
    return [pipeline.get_item(timeout=TIMEOUT) for _ in range(num)]


def test_a_state_is_one_text() -> None:
    """Under one key, so that every checkpoint can hold it."""
    pipeline = build()
    state = pipeline.state_dict()
    assert list(state) == ["spdl"]
    assert json.loads(json.dumps(state)) == state
    assert document(state) == {
        "version": 1,
        "kind": "pipeline",
        "fingerprint": [["source", "list", 10]],
        "approximate": [],
        "sources": [
            {
                "kind": "indexed",
                "rank": 0,
                "world": 1,
                "length": 10,
                "lockstep": False,
                "epochs": [{"epoch": 0, "high": 0, "holes": [], "parts": {}, "iterator": None}],
                "ended": False,
            }
        ],
    }


def test_a_state_does_not_start_a_pipeline() -> None:
    """Checkpoint libraries ask objects for a state that they then replace."""
    first, second = build(), build()
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    assert str(second).startswith(f"<Pipeline {second._engine.pipeline_id}, new>")


def test_what_failed_or_was_dropped_is_consumed() -> None:
    """It is not tried again."""
    seen: list[int] = []

    def pick(item: int) -> int | None:
        seen.append(item)
        if item % 3 == 1:
            raise ValueError(item)
        return item if item % 3 else None

    def made() -> Pipeline[Any]:
        return build(None, lambda b: b.pipe(pick))

    pipeline = made()
    with pipeline.auto_stop():
        assert read(pipeline, 1) == [2]
        state = pipeline.state_dict()
    seen.clear()
    pipeline = made()
    pipeline.load_state_dict(state)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [5, 8]
    assert min(seen) > 2


def test_an_end_is_consumed_when_it_has_been_read() -> None:
    """Before it, a state leads to an empty rest; after it, to the next epoch."""
    pipeline = build([1, 2])
    with pipeline.auto_stop():
        read(pipeline, 2)
        at_last_item = pipeline.state_dict()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == []
        at_end = pipeline.state_dict()
    assert [document(state)["sources"][0]["ended"] for state in (at_last_item, at_end)] == [False, True]
    for state, rest in ((at_last_item, []), (at_end, [1, 2])):
        pipeline = build([1, 2])
        pipeline.load_state_dict(state)
        assert pipeline.state_dict() == state
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=TIMEOUT)) == rest


def test_a_failed_pipeline_has_a_state() -> None:
    """Whoever repairs the reason goes on with it."""

    def refuse(item: int) -> int:
        if item == 4:
            raise ValueError(item)
        return item

    pipeline = build(None, lambda b: b.pipe(refuse, max_failures=0))
    found: list[int] = []
    with pytest.raises(PipelineFailure), pipeline.auto_stop():
        found += pipeline.get_iterator(timeout=TIMEOUT)
    state = pipeline.state_dict()
    pipeline = build(None, lambda b: b.pipe(refuse))
    pipeline.load_state_dict(state)
    with pipeline.auto_stop():
        found += pipeline.get_iterator(timeout=TIMEOUT)
    assert found == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_sources_find_positions_at_once() -> None:
    """A resumed source of a thousand million items is not iterated."""
    far = 500_000_000
    state = changed(build(range(2 * far)).state_dict(), lambda d: d["sources"][0]["epochs"][0].update(high=far))
    pipeline = build(range(2 * far))
    pipeline.load_state_dict(state)
    with pipeline.auto_stop():
        assert read(pipeline, 2) == [far, far + 1]
        assert pipeline.stats().stages[0].num_emitted < 100


def test_iterating_past_what_was_consumed_is_said() -> None:
    """Where a source has no other way."""

    def numbers() -> Iterator[int]:
        yield from range(10)

    pipeline = build(numbers())
    with pipeline.auto_stop():
        read(pipeline, 4)
        state = pipeline.state_dict()
    pipeline = build(numbers())
    with pytest.warns(UserWarning, match=r"source generator has neither .* past \d+ items") as found:
        pipeline.load_state_dict(state)
    assert found[0].filename == __file__
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [4, 5, 6, 7, 8, 9]


def test_a_source_that_became_shorter_fails() -> None:
    """It is not the data that the state is of."""

    def numbers(size: int) -> Iterator[int]:
        yield from range(size)

    pipeline = build(numbers(10))
    with pipeline.auto_stop():
        read(pipeline, 8)
        state = pipeline.state_dict()
    pipeline = build(numbers(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.load_state_dict(state)
    with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=TIMEOUT))
    assert "has 3 items in epoch 0" in str(caught.value.exceptions[0])


class Told:
    """Tells which epochs it was told."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.told: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.told.append(epoch)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, position: int) -> int:
        return 10 * self.told[-1] + position

    def __iter__(self) -> Iterator[int]:
        return iter([self[0], self[1]])


@pytest.mark.parametrize("resumable", [False, True])
def test_a_continuous_source_is_told_its_epoch(resumable: bool) -> None:
    """Before each pass, from its own epoch on."""
    pipeline = PipelineBuilder().add_source(Told(5), continuous=True).add_sink(1).build(resumable=resumable)
    with pipeline.auto_stop():
        found = [list(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(3)]
    assert found == [[50, 51], [60, 61], [70, 71]]


def test_a_source_is_told_the_epoch_of_the_state() -> None:
    """Also one that is not continuous, and that nobody tells its epoch otherwise."""
    pipeline = build(Told(3))
    pipeline.load_state_dict(changed(pipeline.state_dict(), lambda d: epochs_of(d)[0].update(epoch=8, high=1)))
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [81]
        assert [epoch["epoch"] for epoch in epochs(pipeline.state_dict())] == [8]


def epochs_of(found: Any) -> Any:
    return found["sources"][0]["epochs"]


def test_positions_of_other_ranks_are_issued_in_their_order() -> None:
    """``todo`` has global positions; the state keeps it and counts in it."""
    todo = [[1, 2, 1], [4, 10, 3]]
    pipeline = build(list("abcdefghij"))
    pipeline.load_state_dict(changed(pipeline.state_dict(), lambda d: epochs_of(d)[0].update(todo=todo)))
    found: list[str] = []
    with pipeline.auto_stop():
        found += read(pipeline, 1)
        state = pipeline.state_dict()
    (epoch,) = epochs(state)
    assert epoch["todo"] == todo
    assert epoch["holes"] == ([[1, epoch["high"]]] if epoch["high"] > 1 else [])
    pipeline = build(list("abcdefghij"))
    pipeline.load_state_dict(state)
    with pipeline.auto_stop():
        found += pipeline.get_iterator(timeout=TIMEOUT)
    assert found == ["b", "e", "h"]


def test_a_state_is_small_and_fast_with_many_items_in_flight() -> None:
    """A thousand items in flight, every other one consumed: less than 16 KB."""
    pipeline = build(range(10_000), lambda b: b.pipe(lambda item: item, concurrency=2), sink=2000)
    positions = pipeline._engine.ledger.sources[0]
    positions.next_index = 2000
    positions.pending.update(range(0, 2000, 2))
    pipeline._was_started = True
    state = pipeline.state_dict()
    pipeline._was_started = False
    assert len(epochs(state)[0]["holes"]) == 1000
    assert len(state["spdl"]) < 16 * 1024


# -- what is refused


def test_only_resumable_pipelines_have_a_state() -> None:
    """The message says how to build one."""
    pipeline = PipelineBuilder().add_source([1]).add_sink(1).build()
    for call in (pipeline.state_dict, lambda: pipeline.load_state_dict({})):
        with pytest.raises(PipelineStateError, match=r"build\(resumable=True\)"):
            call()
    with pytest.raises(ValueError, match="resumable must be"):
        PipelineBuilder().add_source([1]).add_sink(1).build(resumable="yes")  # type: ignore[arg-type]


def test_a_state_is_loaded_before_the_start() -> None:
    """What has been read cannot be taken back."""
    pipeline = build()
    state = pipeline.state_dict()
    with pipeline.auto_stop(), pytest.raises(PipelineStateError, match="it was started"):
        pipeline.load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: d.update(kind="loader", epoch=None), "the state of a loader"),
        (lambda d: d["fingerprint"].append(["pipe", "decode"]), "stage 1 was pipe decode and is not there"),
        (lambda d: d["fingerprint"][0].__setitem__(2, 11), "stage 0 was source list 11 and is source list 10"),
        (lambda d: d["sources"][0].update(rank=1, world=2), "rank 1 of 2 in rank 0 of 1"),
        (lambda d: d["sources"][0].update(rank=1, world=2, lockstep=True), "rank 1 of 2 in rank 0 of 1"),
        (lambda d: d["sources"].clear(), "of 0 sources"),
        (lambda d: epochs_of(d).clear(), "no epoch"),
        (lambda d: epochs_of(d).append({**epochs_of(d)[0], "epoch": 2}), "from epoch 0 to 2"),
        (lambda d: epochs_of(d)[0].update(high=11), "11 positions of an epoch of 10"),
    ],
)
def test_states_of_others_are_refused(change: Callable[[Any], object], message: str) -> None:
    """By a message that names the difference; nothing is half loaded."""
    pipeline = build()
    before = pipeline.state_dict()
    with pytest.raises(ResumeError, match=message):
        pipeline.load_state_dict(changed(before, change))
    assert pipeline.state_dict() == before
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == list(range(10))


@pytest.mark.parametrize("state", [{}, {"spdl": ""}, {"spdl": '{"version":1,'}, {"other": 1}, None, {"spdl": 5}])
def test_damaged_states_are_refused(state: Any) -> None:
    """With the error of states, whatever they are."""
    with pytest.raises(ResumeError):
        build().load_state_dict(state)


@pytest.mark.parametrize("position", [-1, 9, None])
def test_a_damaged_state_of_an_iterator_is_refused(position: Any) -> None:
    """It must be from before the first item that is missing."""
    pipeline = build(iter(range(10)))
    iterator = {"position": position, "state": 1}
    with pytest.raises(ResumeError, match="damaged"):
        pipeline.load_state_dict(
            changed(pipeline.state_dict(), lambda d: epochs_of(d)[0].update(high=8, iterator=iterator))
        )


def test_states_can_be_taken_while_others_read() -> None:
    """From any thread, at any time."""
    pipeline = build(range(3000), lambda b: b.pipe(lambda item: item, concurrency=2), sink=50)
    is_done = threading.Event()
    found: list[Any] = []

    def watch() -> None:
        while not is_done.is_set():
            found.append(pipeline.state_dict())

    watcher = threading.Thread(target=watch)
    with pipeline.auto_stop():
        watcher.start()
        assert len(list(pipeline.get_iterator(timeout=TIMEOUT))) == 3000
        is_done.set()
        watcher.join()
    await_event(is_done)
    consumed = [epoch["high"] - Ranges.from_json(epoch["holes"]).count() for (epoch,) in map(epochs, found)]
    assert consumed == sorted(consumed)


class Share:
    """The share of one rank in an order that all agree on."""

    def __init__(self, rank: int, world_size: int, num_global: int = 23, seed: int = 0) -> None:
        self.rank = rank
        self.world_size = world_size
        self.num_global = num_global
        self.drop_last = False
        self.seed = seed

    def at_global(self, position: int) -> int:
        return 7 * position % self.num_global

    def __len__(self) -> int:
        return len(range(self.rank, self.num_global, self.world_size))

    def __getitem__(self, position: int) -> int:
        return self.at_global(self.rank + self.world_size * position)

    def __iter__(self) -> Iterator[int]:
        return (self[position] for position in range(len(self)))


@pytest.mark.parametrize("worlds", [(1, 3), (3, 2, 5), (4, 1), (2, 2)], ids=str)
def test_a_run_goes_on_with_another_number_of_ranks(worlds: tuple[int, ...]) -> None:
    """From what is gathered of all ranks: each item is read once, on any of them, and the next epoch is whole."""
    gathered: Any = None
    found: list[int] = []
    for number, world in enumerate(worlds):
        states = []
        is_last = number == len(worlds) - 1
        for rank in range(world):
            pipeline = build(Share(rank, world), lambda b: b.pipe(lambda item: item, name="same", concurrency=2))
            if gathered is not None:
                pipeline.load_state_dict(gathered)
            with pipeline.auto_stop():
                found += pipeline.get_iterator(timeout=TIMEOUT) if is_last else read(pipeline, 2)
                states.append(pipeline.state_dict())
        gathered = encode(combine([decode(state, "a test") for state in states]))
    assert sorted(found) == list(range(23))
    pipeline = build(Share(0, 1), lambda b: b.pipe(lambda item: item, name="same"))
    pipeline.load_state_dict(gathered)
    with pipeline.auto_stop():
        assert sorted(pipeline.get_iterator(timeout=TIMEOUT)) == list(range(23))


def test_an_order_of_another_seed_is_refused() -> None:
    """Its positions are other items."""
    state = build(Share(0, 1)).state_dict()
    with pytest.raises(ResumeError, match="Share 23 seed 0 and is source Share 23 seed 1"):
        build(Share(0, 1, seed=1)).load_state_dict(state)


@pytest.mark.parametrize("kind", ["fresh", "resumed"])
def test_a_resumable_pipeline_that_nobody_holds_ends(kind: str) -> None:
    """Its source is closed, wherever it was, and its threads end."""
    closed = threading.Event()

    def numbers() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.set()

    state = build(numbers()).state_dict()
    if kind == "resumed":
        state = changed(state, lambda d: epochs_of(d)[0].update(high=10, holes=[[2, 4]]))
    pipeline = build(numbers())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.load_state_dict(state)
    assert read(pipeline, 3) == ([0, 1, 2] if kind == "fresh" else [2, 3, 10])
    del pipeline
    await_event(closed)
