"""Logs that do not fit what the pipeline makes now: each is an error that says which part does not."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Aggregate, Aggregator, PathVariants, Pipe, Retry
from spdl.resume import ResumeError, replay

ONE, NESTED, TWICE = "one aggregate", "nested", "two outputs"


def twice(item: int) -> Iterator[int]:
    yield item
    yield -item


def made(kind: str) -> Any:
    builder: Any = PipelineBuilder().add_source(range(4))
    if kind == TWICE:
        builder.pipe(twice)
    if kind == NESTED:
        builder.aggregate(2)
    return builder.aggregate(2).add_sink()


def logged(builder: Any, log: Path) -> list[Any]:
    pipeline = builder.build(provenance=log)
    with pipeline.auto_stop():
        return list(pipeline)


def with_origin(log: Path, origin: Any, epoch: int = 0) -> None:
    """Replace all batches of the log by one."""
    header = log.read_text(encoding="utf-8").splitlines()[0]
    line = json.dumps(
        {"step": 0, "run": json.loads(header)["run"], "epoch": epoch, "origin": origin}, separators=(",", ":")
    )
    log.write_text(f"{header}\n{line}\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "origin", "said"),
    [
        (ONE, {"all": [{"all": [0, 1]}]}, "the log has an aggregate where no stage makes any"),
        (ONE, {"all": [{"part": 0, "of": 0}]}, "the log has parts of an item where no stage makes any"),
        (NESTED, {"all": [[0, 2]]}, "the log has a single item where stage 'aggregate.*' makes aggregates"),
        (TWICE, {"all": [{"part": 5, "of": 0}]}, "the stages make other outputs of|the stages make no output of"),
        (ONE, {"all": [7]}, "source range does not have all items|has no item"),
    ],
)
def test_origins_of_other_pipelines(kind: str, origin: Any, said: str, tmp_path: Path) -> None:
    """The fingerprint was the same, and the line is not."""
    log = tmp_path / "batches.jsonl"
    logged(made(kind), log)
    with_origin(log, origin)
    with pytest.raises(ResumeError, match=f"cannot replay step 0: .*({said})"):
        replay(made(kind), log, step=0)


class Shrinking:
    """A sequence of four, some of which go."""

    def __init__(self) -> None:
        self.are_gone = False

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[int]:
        return (self[index] for index in range(4))

    def __getitem__(self, index: int) -> int:
        if self.are_gone:
            raise IndexError("no such file")
        return index


def test_items_that_are_gone(tmp_path: Path) -> None:
    """With the error of the source."""
    log, source = tmp_path / "batches.jsonl", Shrinking()
    builder: Any = PipelineBuilder().add_source(source).aggregate(2).add_sink()
    assert logged(builder, log) == [[0, 1], [2, 3]]
    source.are_gone = True
    with pytest.raises(ResumeError, match="does not have all items: no such file"):
        replay(builder, log, step=1)


class Stream:
    """An iterable without a length."""

    def __init__(self) -> None:
        self.num = 4

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.num))


def test_a_stream_that_has_become_shorter(tmp_path: Path) -> None:
    """It is read up to the last item that is wanted."""
    log, source = tmp_path / "batches.jsonl", Stream()
    builder: Any = PipelineBuilder().add_source(source).aggregate(2).add_sink()
    logged(builder, log)
    assert replay(builder, log, step=1) == [2, 3]
    source.num = 3
    with pytest.raises(ResumeError, match="has no item 3"):
        replay(builder, log, step=1)


class AsyncStream:
    async def __aiter__(self) -> AsyncIterator[int]:
        for item in range(4):
            yield item


def test_async_sources_are_not_read_again(tmp_path: Path) -> None:
    """There may be no loop here, and another one running."""
    log = tmp_path / "batches.jsonl"
    builder: Any = PipelineBuilder().add_source(AsyncStream()).aggregate(2).add_sink()
    assert logged(builder, log) == [[0, 1], [2, 3]]
    with pytest.raises(ResumeError, match="is async"):
        replay(builder, log, step=0)


class Stateful(Stream):
    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError


def test_a_later_epoch_of_a_source_with_a_state(tmp_path: Path) -> None:
    """Its order there is known to nobody."""
    log = tmp_path / "batches.jsonl"
    builder: Any = PipelineBuilder().add_source(Stateful()).aggregate(2).add_sink()
    logged(builder, log)
    with_origin(log, {"all": [[0, 2]]}, epoch=1)
    with pytest.raises(ResumeError, match=r"has a state and no set_epoch\(\), so its order in epoch 1 is not known"):
        replay(builder, log, step=0)


class Moody(Aggregator[int, Any]):
    """Says that it is exact, and makes one output or many."""

    is_exact = True
    splits = False

    def __init__(self) -> None:
        self.items: list[int] = []

    def accumulate(self, item: int) -> Any:
        if Moody.splits:
            return item
        self.items.append(item)
        return self.flush() if len(self.items) == 2 else None

    def flush(self) -> Any:
        items, self.items = self.items, []
        return items or None


def test_an_aggregator_that_makes_other_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the items that were one."""
    log = tmp_path / "batches.jsonl"
    builder: Any = PipelineBuilder().add_source(range(4)).aggregate(Moody()).add_sink()
    assert logged(builder, log) == [[0, 1], [2, 3]]
    assert replay(builder, log, step=1) == [2, 3]
    monkeypatch.setattr(Moody, "splits", True)
    with pytest.raises(ResumeError, match=r"Moody of stage .* makes 2 outputs of the items of one"):
        replay(builder, log, step=0)


def test_aggregates_in_paths_are_refused(tmp_path: Path) -> None:
    """At any depth."""
    log = tmp_path / "batches.jsonl"
    logged(made(ONE), log)
    inner = PathVariants(lambda item: 0, [[Aggregate(2)], [Pipe(abs, retry=Retry(2))]])
    builder: Any = PipelineBuilder().add_source(range(4)).path_variants(lambda item: 0, [[inner]]).add_sink()
    with pytest.raises(ResumeError, match=r"another pipeline|there is an aggregate in a path"):
        replay(builder, log, step=0)
