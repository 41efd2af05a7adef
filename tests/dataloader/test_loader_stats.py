"""``stats()`` of the loaders: of the newest iteration, while it runs and when it is over."""

import hashlib
import os
import pickle
import threading
from typing import Any

import pytest

from spdl._monitor._client import connect
from spdl.dataloader import DataLoader
from spdl.pipeline import PipelineStateError, PipelineStats, StallError
from tests.support.timeouts import TIMEOUT


def called(stats: PipelineStats) -> dict[str, int]:
    return {stage.info.stage_name.partition("(")[0]: stage.num_calls for stage in stats.stages}


def test_statistics_of_a_loader_are_those_of_its_newest_iteration() -> None:
    """Before the first one nothing is counted; a later one begins from zero."""
    loader: DataLoader[int, list[str]] = DataLoader(range(10), preprocessor=str, batch_size=5, num_threads=2)
    assert loader.stats().state == "new"
    assert len(list(loader)) == 2
    stats = loader.stats()
    assert (stats.state, stats.num_items, called(stats)["str"]) == ("ended", 2, 10)
    iterator = iter(loader)
    assert loader.stats().num_items == 0
    next(iterator)
    assert loader.stats().num_items == 1
    assert "str" in str(loader.stats())


def test_statistics_do_not_keep_an_iteration_alive() -> None:
    """An iteration that was left ends, and what it counted can still be read."""
    gate = threading.Event()
    source = iter(gate.wait, None)  # endless
    gate.set()
    loader: DataLoader[bool, Any] = DataLoader(source, preprocessor=str, num_threads=1, timeout=TIMEOUT)
    for _ in loader:
        break
    assert loader.stats().state in ("ended", "stopping")
    assert loader.stats().num_items == 1
    assert pickle.loads(pickle.dumps(DataLoader(range(3), preprocessor=str))).stats().num_items == 0


class Slow:
    """A dataset that its consumer has to wait for."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        hashlib.sha256(bytes(4 << 20)).digest()
        return index


@pytest.mark.parametrize("workers", ["thread", pytest.param("process", marks=pytest.mark.slow), None])
def test_loader_of_torchs_kind_has_statistics(workers: str | None) -> None:
    """With every kind of workers: batches, the time that the consumer waited for them, and what is in flight."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    num_workers = 0 if workers is None else 1
    loader = get_pytorch_dataloader(
        Slow(),
        4,
        num_workers=num_workers,
        timeout=0,
        workers=workers or "thread",  # type: ignore[arg-type]
    )
    assert loader.stats().state == "new"
    iterator = iter(loader)
    next(iterator)
    assert loader.stats().state == "running"
    assert loader.stats().num_items == 1
    assert len(list(iterator)) == 2
    stats = loader.stats()
    assert (stats.state, stats.num_items) == ("ended", 3)
    assert called(stats)["load"] == 3
    assert stats.consumer_wait > 0
    assert "load" in str(stats)


def test_pieces_of_a_batch_are_no_dropped_items() -> None:
    """Threads load a batch in pieces, and the one that ends last gives the batch: nothing is dropped."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    loader = get_pytorch_dataloader(list(range(64)), 8, num_workers=4, timeout=0, workers="thread")
    assert len(list(loader)) == 8
    load = loader.stats().stages[1]
    assert (load.num_dropped, load.num_emitted) == (0, 8)
    assert load.num_calls > 8
    assert "dropped" not in str(loader.stats())


def streamed() -> Any:
    """An iterable dataset."""
    from torch.utils.data import IterableDataset

    class Streamed(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(1000))

    return Streamed()


@pytest.mark.parametrize("is_iterable", [False, True])
def test_source_of_a_loader_with_threads_is_not_busy_while_the_consumer_is_away(is_iterable: bool) -> None:
    """It waits until the consumer has taken a batch, so it is blocked, and the consumer is what limits."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    dataset = streamed() if is_iterable else list(range(1000))
    loader = get_pytorch_dataloader(dataset, 4, num_workers=2, timeout=0, workers="thread")
    iterator = iter(loader)
    next(iterator)
    stats = loader.stats()
    while stats.stages[0].blocked < 0.8 * stats.elapsed or stats.consumer_wait > 0.2 * stats.elapsed:
        threading.Event().wait(0.001)  # time passes by itself
        stats = loader.stats()
    assert stats.stages[0].busy < 0.2 * stats.elapsed
    assert stats.limiting_stage is stats.stages[-1]
    del iterator


def test_failed_batches_of_a_loader_without_workers_are_counted() -> None:
    """A batch whose exception was raised in the consumer is no item."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    loader = get_pytorch_dataloader(["1", "x", "3"], None, num_workers=0, collate_fn=int, workers="thread")
    iterator = iter(loader)
    assert next(iterator) == 1
    with pytest.raises(ValueError, match="x"):
        next(iterator)
    assert list(iterator) == [3]
    assert loader.stats().stages[0].num_failures == 1
    assert loader.stats().num_items == 2


def test_verdict_of_a_loader_is_that_of_its_newest_iteration() -> None:
    """It measures from the first question on, each iteration anew, and speaks of the loader's arguments."""
    # More batches than wait for the consumer: the pipeline cannot have ended before it is measured.
    loader: DataLoader[int, list[str]] = DataLoader(range(100), preprocessor=str, batch_size=5, num_threads=2)
    assert loader.verdict().cause == "unsure"
    with pytest.raises(PipelineStateError, match="has not been started"):
        loader.verdict(seconds=1)
    for _ in range(2):
        assert len(list(loader)) == 20
        assert loader.stats().measured is not None
        assert "a verdict needs" in loader.verdict().reason
    again = pickle.loads(pickle.dumps(loader))
    assert again.verdict().cause == "unsure"


@pytest.mark.parametrize("workers", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_loader_of_torchs_kind_has_a_verdict(workers: str) -> None:
    """Threads are measured, worker processes are not."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    data = list(range(80))  # more batches than wait for the consumer, as above
    loader = get_pytorch_dataloader(data, 4, num_workers=1, timeout=0, workers=workers)  # type: ignore[arg-type]
    assert loader.verdict().cause == "unsure"
    assert len(list(loader)) == 20
    assert (loader.stats().measured is not None) == (workers == "thread")
    assert loader.verdict().cause == "unsure"
    assert pickle.loads(pickle.dumps(loader)).verdict().cause == "unsure"


def test_loaders_open_the_monitor(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their pipelines are shown like any other."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    loader: DataLoader[int, Any] = DataLoader(range(10), preprocessor=str, num_threads=1)
    with loader.monitor():
        assert len(list(loader)) == 10
        with connect(os.getpid()) as connection:
            assert connection.ask("stats")["pid"] == os.getpid()


def test_a_stall_is_raised_in_the_consumer_of_a_loader() -> None:
    """With the report, and without waiting for the call."""
    gate = threading.Event()
    loader: DataLoader[int, Any] = DataLoader(
        range(3), preprocessor=lambda item: gate.wait(TIMEOUT), stall_timeout=0.05, stall_action="raise"
    )
    try:
        with pytest.raises(StallError, match="calls in flight"):
            next(iter(loader))
    finally:
        gate.set()


class Blocking:
    """A dataset whose samples never come."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        self.gate.wait(TIMEOUT)
        return index


def test_a_stall_is_raised_in_the_consumer_of_a_loader_of_torchs_kind() -> None:
    """With threads. Worker processes have a timeout."""
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    gate = threading.Event()
    options: Any = {"stall_timeout": 0.05, "stall_action": "raise"}
    loader = get_pytorch_dataloader(Blocking(gate), num_workers=1, workers="thread", **options)
    try:
        with pytest.raises(StallError, match=":load"):
            next(iter(loader))
    finally:
        gate.set()
    with pytest.raises(ValueError, match="stall_timeout is for threads"):
        get_pytorch_dataloader(Blocking(gate), num_workers=1, workers="process", **options)
