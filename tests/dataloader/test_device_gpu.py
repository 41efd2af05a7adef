"""``prefetch_to_device`` on a CUDA device. ``pytest -m gpu`` runs these."""

from collections.abc import Iterator
from typing import Any

import pytest

from spdl.dataloader import prefetch_to_device
from tests.support.gpu import require_cuda

pytestmark = pytest.mark.gpu

SIZE = 1 << 20


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch, with a device, which is that of this process."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return require_cuda()


def batches(torch: Any, num: int) -> Iterator[Any]:
    """Different ones in the same memory, as of a loader that uses its memory again."""
    batch = torch.empty(SIZE, dtype=torch.int32)
    for index in range(num):
        yield batch.fill_(index)


def pinned_batches(torch: Any, num: int) -> Iterator[Any]:
    """Likewise, page-locked."""
    batch = torch.empty(SIZE, dtype=torch.int32).pin_memory()
    for index in range(num):
        yield batch.fill_(index)


@pytest.mark.parametrize("make", [batches, pinned_batches])
@pytest.mark.parametrize("on_a_stream", [False, True])
def test_no_batch_is_written_over_while_it_is_used(torch: Any, make: Any, on_a_stream: bool) -> None:
    """The consumer's stream is slow, its host is not, and drops every batch at once."""
    stream = torch.cuda.Stream() if on_a_stream else torch.cuda.current_stream()
    sums = []
    with torch.cuda.stream(stream):
        for batch in prefetch_to_device(make(torch, 30)):
            torch.cuda._sleep(3_000_000)
            sums.append(batch.sum())
            del batch
        found = torch.stack(sums).tolist()
    assert found == [index * SIZE for index in range(30)]


def test_batches_are_ready_on_the_consumers_stream_without_waiting(torch: Any) -> None:
    """While its stream is busy, it is given batches; once all memory is there, since allocating some waits."""
    iterator = iter(prefetch_to_device(batches(torch, 4)))
    for _ in range(2):
        next(iterator)
    torch.cuda._sleep(1_000_000_000)
    busy = torch.cuda.current_stream().record_event()
    held = [next(iterator), next(iterator)]
    assert not busy.query()
    assert [int(batch[-1]) for batch in held] == [2, 3]
    del iterator


def test_pinned_memory_is_allocated_once(torch: Any) -> None:
    """And the device's memory does not grow from epoch to epoch."""
    moved = prefetch_to_device([torch.ones(SIZE)] * 10)
    for _ in moved:
        pass
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    for _ in range(3):
        for _ in moved:
            pass
    torch.cuda.synchronize()
    assert torch.cuda.memory_reserved() <= before


def test_sparse_tensors_are_handed_over(torch: Any) -> None:
    """By their parts."""
    for batch in prefetch_to_device([{"s": torch.eye(3).to_sparse(), "c": torch.eye(3).to_sparse_csr()}]):
        assert torch.equal(batch["s"].to_dense().cpu(), torch.eye(3))
        assert torch.equal(batch["c"].to_dense().cpu(), torch.eye(3))


def test_the_current_device_is_the_default_and_a_wrong_one_is_told(torch: Any) -> None:
    """With its number."""
    (batch,) = prefetch_to_device([torch.ones(1)])
    assert batch.device == torch.device("cuda", torch.cuda.current_device())
    (batch,) = prefetch_to_device([torch.ones(1)], device="cuda:0")
    assert batch.device == torch.device("cuda:0")
    with pytest.raises(RuntimeError, match="cuda:99"):
        iter(prefetch_to_device([], device="cuda:99"))
