"""How many lines failures log: one each, the first of a kind with its traceback, then a count at intervals."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl import _failure_log
from spdl._failure_log import log_failed
from spdl.dataloader import DataLoader, get_pytorch_dataloader
from spdl.pipeline import PipelineBuilder, TaskHook, config
from spdl.pipeline._observe._reporting import report_every
from tests.support.running import build_of


@pytest.fixture(autouse=True)
def by_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SPDL_PIPELINE_COMPACT_LOG", raising=False)
    config.set_compact_log(None)
    yield
    config.set_compact_log(None)


def refuse(item: Any) -> Any:
    raise ValueError(f"bad item {item}\nwith a second line")


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.ERROR]


def test_a_thousand_failures(caplog: pytest.LogCaptureFixture) -> None:
    """A traceback, nine lines, and then the number at 10, 20, 50 and so on: each in one line."""
    pipeline = build_of(range(1000), lambda b: b.pipe(refuse, max_failures=-1)).build(num_threads=1)
    assert list(pipeline) == []
    records = errors(caplog)
    assert [record.exc_info is not None for record in records] == [True] + [False] * (len(records) - 1)
    assert all("\n" not in record.getMessage() for record in records)
    texts = [record.getMessage() for record in records[1:]]
    numbers = [int(text.partition("; ")[2].partition(" ")[0]) for text in texts if "failures like this so far" in text]
    assert numbers == [10, 20, 50, 100, 200, 500, 1000]
    assert len(texts) == 8 + len(numbers)
    assert "ValueError: bad item 1 …" in texts[0]
    assert pipeline.stats().stages[1].num_failures == 1000


def test_each_kind_has_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Kinds differ by stage, class and the line that raised."""

    def op(item: int) -> int:
        if item % 3 == 0:
            raise ValueError("one")
        if item % 3 == 1:
            raise ValueError("another")
        raise KeyError(item)

    pipeline = build_of(range(30), lambda b: b.pipe(op, max_failures=-1)).build(num_threads=1)
    assert list(pipeline) == []
    assert sum(record.exc_info is not None for record in errors(caplog)) == 3


def test_epochs_of_one_pipeline_count_together(caplog: pytest.LogCaptureFixture) -> None:
    """The traceback comes once, not in each epoch."""
    builder = PipelineBuilder().add_source([1, 2, 3], continuous=True)
    builder.pipe(lambda x: x if x == 2 else refuse(x), max_failures=-1)
    pipeline = builder.add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        for _ in range(4):
            assert list(pipeline) == [2]
    assert [record.exc_info is not None for record in errors(caplog)][:4] == [True, False, False, False]


def odd_fails(item: int) -> int:
    return item if item % 2 == 0 else refuse(item)


class Odd:
    """A dataset whose odd samples fail."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return odd_fails(index)


@pytest.mark.parametrize("kind", ["DataLoader", "threads", "tolerant", "processes"])
def test_epochs_of_a_loader_count_together(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Although each has a pipeline, or workers, of its own."""
    if kind == "DataLoader":
        loader: Any = DataLoader(range(4), preprocessor=odd_fails, max_failures=-1)
    else:
        pytest.importorskip("torch")
        options: dict[str, Any] = {
            "threads": {"workers": "thread", "max_failures": -1},
            "tolerant": {"workers": "thread", "max_failures": 100},
            "processes": {"workers": "process", "max_failures": 100},
        }[kind]
        loader = get_pytorch_dataloader(Odd(), batch_size=1, num_workers=1, **options)
    num = 3
    for _ in range(num):
        assert len(list(loader)) == 2
    records = errors(caplog)
    assert sum(record.exc_info is not None for record in records) == 1
    assert len(records) == 2 * num
    assert all("\n" not in record.getMessage() for record in records)


@pytest.mark.parametrize(("value", "tracebacks"), [(True, 0), (False, 20)])
def test_who_asks_for_a_style_gets_it_each_time(value: bool, tracebacks: int, caplog: pytest.LogCaptureFixture) -> None:
    """One line each, or each with its traceback; nothing is only counted."""
    config.set_compact_log(value)
    pipeline = build_of(range(20), lambda b: b.pipe(refuse, max_failures=-1)).build(num_threads=1)
    assert list(pipeline) == []
    assert len(errors(caplog)) == 20
    assert sum(record.exc_info is not None for record in errors(caplog)) == tracebacks


def test_kinds_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    """A class for each failure does not fill the memory, nor the log."""
    seen: Counter[str] = Counter()
    for number in range(3000):
        error = type(f"Error{number}", (Exception,), {})()
        log_failed(logging.getLogger("spdl.test"), seen, "stage", "it failed", error=error)
    assert len(seen) == _failure_log._MOST_KINDS + 1
    assert len(caplog.records) < 300


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_replaced_samples_are_logged_as_failures_are(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The warnings about them are counted as well: of 100 samples, 50 are replaced, many of them more than once."""
    pytest.importorskip("torch")
    loader = get_pytorch_dataloader(
        OddOfHundred(), batch_size=1, num_workers=1, workers=kind, on_error="replace", persistent_workers=True
    )
    assert len(list(loader)) == 100
    if kind == "thread":  # worker processes write theirs to the standard error
        assert sum(record.exc_info is not None for record in caplog.records) == 1
        assert 10 < len(caplog.records) < 20
        assert {record.levelno for record in caplog.records} == {logging.WARNING}


class OddOfHundred(Odd):
    def __len__(self) -> int:
        return 100


class BadHook(TaskHook):
    """Fails for each item, before it or after it."""

    def __init__(self, when: str) -> None:
        self.when = when

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        if self.when == "before":
            raise RuntimeError("a bad hook")
        try:
            yield
        finally:
            raise RuntimeError("a bad hook")


async def doubled(item: int) -> AsyncIterator[int]:
    yield item
    yield item


def seeded(item: int, *, rng: Any) -> int:
    return item


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("op", [odd_fails, doubled, seeded])
def test_a_hook_that_fails_for_every_item_does_not_fill_the_log(
    op: Any, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever kind of stage it is at: a traceback for each kind, a few lines, and counts."""
    seed = {"seed": 1} if op is seeded else {}
    builder = build_of(range(500), lambda b: b.pipe(op, max_failures=-1, rng=op is seeded))
    list(builder.build(num_threads=1, task_hook_factory=lambda _: [BadHook(when)], **seed))
    records = [record for record in errors(caplog) if "hook" in record.getMessage()]
    assert 10 < len(records) < 40
    assert 1 <= sum(record.exc_info is not None for record in records) <= 2


def test_a_report_that_fails_each_time_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Its first failure has a traceback."""
    num_calls = 0

    async def report() -> None:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 60:
            raise asyncio.CancelledError
        raise ValueError("no report")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(report_every(1e-9, report, "a stage"))
    records = errors(caplog)
    assert [record.exc_info is not None for record in records] == [True] + [False] * 11
    assert "Report of a stage failed; the next is in 1e-09 s: ValueError: no report" in records[1].getMessage()
