"""Loading in worker processes: batches, their order, epochs, and the ways to leave."""

import gc
import itertools
import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import BatchSampler, DataLoader, RandomSampler  # noqa: E402 - they need torch

from spdl.dataloader._torch.processes import _worker_pool  # noqa: E402
from spdl.dataloader._torch.processes._processes import ProcessRun  # noqa: E402

from .process_datasets import Arrays, Counting, Large, Numbers, Randoms, Sharing, Tree, as_is, plan_of  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


def load(dataset: Any, batch_size: int | None = 4, **options: Any) -> list[Any]:
    run = ProcessRun(plan_of(dataset, batch_size, **options))
    try:
        return list(run.iterate())
    finally:
        run.close()


@pytest.mark.slow
def test_batches_are_those_of_torch() -> None:
    """Nested batches: structure, dtypes, shapes, values, order."""
    expected = list(DataLoader(Tree(10), batch_size=4))  # type: ignore[arg-type]
    found = load(Tree(10))
    assert len(found) == len(expected)
    for batch, other in zip(found, expected, strict=True):
        assert batch.keys() == other.keys()
        assert batch["pair"][1] == other["pair"][1]
        for name in ("image", "array"):
            torch.testing.assert_close(batch[name], other[name], rtol=0, atol=0)
        for one, two in zip(batch["flags"], other["flags"], strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=0)
        assert torch.equal(batch["pair"][0], other["pair"][0])


def test_batches_go_round_the_workers() -> None:
    """Batch i is made by worker i modulo their number."""
    batches = load(Numbers(14), 2, collate_fn=as_is, num_workers=3)
    assert [[index for index, _ in batch] for batch in batches] == [[i, i + 1] for i in range(0, 14, 2)]
    pids = [batch[0][1] for batch in batches]
    assert len(set(pids)) == 3
    assert pids == [pids[i % 3] for i in range(7)]
    assert os.getpid() not in pids


def test_samples_come_alone_without_batches() -> None:
    """collate_fn, which converts then, gets them one by one."""
    assert [index for index, _ in load(Numbers(5), None)] == list(range(5))


def test_completion_order_gives_every_batch_once() -> None:
    """No batch is lost or doubled where order is not asked for."""
    batches = load(Numbers(40), 2, collate_fn=as_is, in_order=False)
    assert sorted(index for batch in batches for index, _ in batch) == list(range(40))


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_random_numbers_are_those_of_torch(persistent: bool) -> None:
    """In the sampler and, from all three generators, in the workers; over epochs, and after one that was left early."""

    def epochs(make: Any) -> Iterator[Any]:
        torch.manual_seed(5)
        dataset = Randoms(20)
        for generator in (None, torch.Generator().manual_seed(8)):
            sampler = BatchSampler(RandomSampler(dataset, generator=generator), 3, drop_last=False)
            loader = make(dataset, sampler, generator)
            yield list(loader())
            yield list(itertools.islice(loader(), 2))
            yield list(loader())
        yield int(torch.randint(1 << 40, ()))

    def theirs(dataset: Any, sampler: Any, generator: Any) -> Any:
        loader: Any = DataLoader(
            dataset,
            batch_sampler=sampler,
            num_workers=2,
            collate_fn=as_is,
            generator=generator,
            persistent_workers=persistent,
        )
        return lambda: iter(loader)

    def ours(dataset: Any, sampler: Any, generator: Any) -> Any:
        plan = plan_of(dataset, indices=sampler, collate_fn=as_is, generator=generator, persistent_workers=persistent)
        return ProcessRun(plan).iterate

    assert list(epochs(ours)) == list(epochs(theirs))


def test_a_dataset_is_shared_until_it_is_written_to() -> None:
    """Arrays and tensors of a worker are views of one mapping, its own once it writes; shared tensors stay shared."""
    dataset = Arrays()
    sums = [float(dataset.array.sum()), int(dataset.fixed.sum()), int(dataset.tensor.sum()), 3]
    batches = load(dataset, None)
    for seen in batches[:2]:  # of either worker the first
        assert seen == {
            "writable": [True, False],
            "owners": ["mmap", "mmap"],
            "same": True,
            "sums": sums,
            "stride": (1, 500),
        }
    assert float(dataset.array.sum()) == sums[0]
    assert dataset.shared[:5].tolist() == [1, 2, 3, 4, 0]


def test_each_epoch_sees_the_dataset_as_it_is() -> None:
    """Workers that are not persistent get it anew."""
    dataset = Numbers(2)
    dataset.offset = 1
    run = ProcessRun(plan_of(dataset, None, num_workers=1))
    assert [index for index, _ in run.iterate()] == [1, 2]
    dataset.offset = 5
    assert [index for index, _ in run.iterate()] == [5, 6]
    run.close()


def test_persistent_workers_stay() -> None:
    """Over epochs, also after one that was left early, of which nothing comes later."""
    run = ProcessRun(plan_of(Numbers(16), 2, persistent_workers=True, collate_fn=as_is))
    first = list(run.iterate())
    early = list(itertools.islice(run.iterate(), 3))
    last = list(run.iterate())
    assert first == last
    assert early == first[:3]
    run.close()
    run.close()
    assert [index for batch in run.iterate() for index, _ in batch] == list(range(16))
    run.close()


def test_iterable_datasets_go_round_until_exhausted() -> None:
    """As with torch: each worker iterates its own, and those that have ended are left out."""
    for options in ({}, {"batch_size": 2}, {"batch_size": 2, "drop_last": True}):
        dataset = Counting(3, 7)
        expected = [
            batch.tolist()
            for batch in DataLoader(dataset, num_workers=2, **{"batch_size": 3, **options})  # type: ignore[arg-type]
        ]
        found = load(dataset, **{"batch_size": 3, **options})
        assert [batch.tolist() for batch in found] == expected


def test_persistent_workers_iterate_anew() -> None:
    """An iterable dataset begins again with each epoch, wherever the last one was left."""
    run = ProcessRun(plan_of(Counting(3, 5), 2, persistent_workers=True, collate_fn=as_is))
    first = list(run.iterate())
    assert sorted(itertools.chain(*first)) == [0, 1, 2, 100, 101, 102, 103, 104]
    assert next(run.iterate()) == first[0]
    assert list(run.iterate()) == first
    run.close()


def test_leaving_an_epoch_ends_its_workers() -> None:
    """By collection of the iterator; the leak check of every test sees to it that nothing stays."""
    run = ProcessRun(plan_of(Numbers(100), 2))
    batches = run.iterate()
    next(batches)
    other = run.iterate()
    assert next(other)[0].tolist() == [0, 1]
    del batches
    gc.collect()
    assert next(other)[0].tolist() == [2, 3]
    run.close()


def test_all_batches_may_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the shared memory is full, what comes is a copy; however much is asked for meanwhile."""
    monkeypatch.setattr(_worker_pool, "_LEAST", 1 << 20)
    monkeypatch.setattr(_worker_pool, "default_limit", lambda: 1 << 20)
    indices = [[i] * 100_000 for i in range(12)]  # more than a socket takes
    batches = load(Large(), indices=indices, collate_fn=as_is, prefetch_factor=3)
    assert [int(batch[0]) for batch in batches] == list(range(12))
    assert all(batch.nbytes == 400_000 for batch in batches)


def test_what_multiprocessing_shares_stays_shared() -> None:
    """Locks and queues of a dataset: all workers, and this process, have the same."""
    dataset = Sharing(multiprocessing.get_context("forkserver"))
    assert load(dataset, None) == list(range(16))
    assert sorted(dataset.queue.get() for _ in range(16)) == list(range(16))
    dataset.queue.close()
    dataset.queue.join_thread()


def test_few_workers_at_a_time_load_the_dataset() -> None:
    """The others wait until one has it."""
    batches = load(Numbers(9), 1, collate_fn=as_is, num_workers=3, worker_init_concurrency=1)
    assert [batch[0][0] for batch in batches] == list(range(9))


def test_pin_gets_every_batch() -> None:
    """In this process, before the consumer."""
    assert load(Numbers(3), 1, collate_fn=as_is, pin=lambda batch: batch[0][0]) == [0, 1, 2]
