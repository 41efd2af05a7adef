"""``workers="thread"``: order, pieces, errors, bounds and ends. torch's own loader is the oracle in ``oracle/``."""

import gc
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, StackDataset, Subset, TensorDataset  # noqa: E402

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402
from spdl.dataloader._torch.threads._pieces import may_split  # noqa: E402


def load(dataset: Any, batch_size: int | None = 4, **options: Any) -> Any:
    return get_pytorch_dataloader(dataset, batch_size, **{"workers": "thread", "num_workers": 2, **options})


def as_given(samples: Any) -> Any:
    return samples


class Squares:
    """A map-style dataset that says which threads it was used in."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        self.threads.add(threading.get_ident())
        return index * index


class Failing(Squares):
    """Fails at some indices."""

    def __init__(self, length: int, *bad: int) -> None:
        super().__init__(length)
        self.bad = bad

    def __getitem__(self, index: int) -> int:
        if index in self.bad:
            raise KeyError(f"sample {index}")
        return super().__getitem__(index)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True},
        {"shuffle": True, "drop_last": True},
        {"shuffle": True, "batch_size": None},
    ],
)
@pytest.mark.parametrize("has_generator", [False, True])
def test_batches_and_later_random_numbers_equal_those_of_torch(
    num_workers: int, options: dict[str, Any], has_generator: bool
) -> None:
    """Two epochs have torch's batches in torch's order, and the generator is left as torch leaves it."""
    dataset = TensorDataset(torch.arange(30), torch.arange(60).reshape(30, 2))
    results = []
    for make in (DataLoader, get_pytorch_dataloader):
        generator = torch.Generator().manual_seed(7) if has_generator else None
        own: dict[str, Any] = {"workers": "thread", "num_workers": num_workers}
        torch.manual_seed(0)
        loader = make(
            dataset, **{"batch_size": 4, **options}, generator=generator, **own if make is not DataLoader else {}
        )
        epochs = [batch for _ in range(2) for batch in loader]
        results.append((epochs, torch.rand(2, generator=generator)))
    (expected, after_expected), (found, after_found) = results
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert torch.equal(after_found, after_expected)


def test_first_batch_is_loaded_by_all_threads() -> None:
    """A single batch is cut in as many pieces as there are threads: each waits here for the others."""
    barrier = threading.Barrier(3, timeout=100)

    class Meeting(Squares):
        def __getitem__(self, index: int) -> int:
            if index % 3 == 0:
                barrier.wait()
            return super().__getitem__(index)

    dataset = Meeting(9)
    assert list(load(dataset, 9, num_workers=3, collate_fn=as_given)) == [[i * i for i in range(9)]]
    assert len(dataset.threads) == 3


def test_threads_are_neither_the_consumers_nor_left_behind() -> None:
    """Samples are loaded elsewhere, and at the end of the epoch the threads have ended."""
    before = threading.active_count()
    dataset = Squares(20)
    assert sum(batch.sum().item() for batch in load(dataset)) == sum(i * i for i in range(20))
    assert threading.get_ident() not in dataset.threads
    assert threading.active_count() == before


def test_no_workers_load_in_the_consumers_thread() -> None:
    """``num_workers=0`` starts nothing."""
    dataset = Squares(8)
    assert [batch.tolist() for batch in load(dataset, num_workers=0)] == [[0, 1, 4, 9], [16, 25, 36, 49]]
    assert dataset.threads == {threading.get_ident()}


def test_index_batches_are_drawn_in_the_consumers_thread_and_no_further_than_allowed() -> None:
    """At most prefetch_factor * num_workers are under way, besides the batch that was just taken."""
    drawn: list[str] = []

    def sampler() -> Iterator[int]:
        for index in range(40):
            drawn.append(threading.current_thread().name)
            yield index

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            return sampler()

    batches = iter(load(Squares(40), 1, sampler=Sampler(), prefetch_factor=3))
    assert len(drawn) == 6
    next(batches)
    assert len(drawn) == 7
    assert set(drawn) == {threading.current_thread().name}


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_error_has_its_own_type_and_the_iterator_goes_on(num_workers: int, in_order: bool) -> None:
    """As with torch: the batches around the one that fails all come."""
    batches = iter(load(Failing(12, 5, 6), num_workers=num_workers, in_order=in_order, collate_fn=as_given))
    found: list[Any] = []
    errors = []
    while True:
        try:
            found.append(next(batches))
        except StopIteration:
            break
        except KeyError as exc:
            errors.append(exc)
    assert sorted(found) == [[0, 1, 4, 9], [64, 81, 100, 121]]
    assert [str(error) for error in errors] == ["'sample 5'"], "the first of the batch, whoever failed first"
    if num_workers:
        assert errors[0].__notes__[0].startswith("while batch 1 was loaded in ")
        assert errors[0].__notes__[0].endswith("indices [4, 5, 6, 7]")


def test_error_of_the_sampler_comes_after_the_batches_before_it() -> None:
    """Whatever was drawn is loaded; then the sampler's exception is raised, and the epoch is over."""

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            yield from range(6)
            raise LookupError("nothing more")

    batches = iter(load(Squares(6), 2, sampler=Sampler(), collate_fn=as_given))
    assert [next(batches) for _ in range(3)] == [[0, 1], [4, 9], [16, 25]]
    with pytest.raises(LookupError, match="nothing more"):
        next(batches)
    assert list(batches) == []


@pytest.mark.parametrize("num_workers", [0, 2])
def test_collate_function_may_return_anything(num_workers: int) -> None:
    """``None`` and generators are batches like others; its errors are raised."""
    assert list(load(range(4), 2, num_workers=num_workers, collate_fn=lambda samples: None)) == [None, None]
    lazy = load(range(4), 2, num_workers=num_workers, collate_fn=lambda samples: (n + 1 for n in samples))
    assert [list(batch) for batch in lazy] == [[1, 2], [3, 4]]

    def refuse(samples: list[int]) -> None:
        raise TypeError("not these")

    with pytest.raises(TypeError, match="not these"):
        next(iter(load(range(4), 2, num_workers=num_workers, collate_fn=refuse)))


def test_index_batches_may_be_of_any_type() -> None:
    """Tuples, tensors and keys that are no numbers reach the dataset as the batch sampler gave them."""
    words = {"a": 1, "b": 2, "c": 3}
    assert list(load(words, 1, batch_sampler=[("a", "b"), ["c"], []], collate_fn=as_given)) == [[1, 2], [3], []]
    tensors = [torch.tensor([0, 1]), torch.tensor([2])]
    assert list(load(torch.arange(3) * 10, 1, batch_sampler=tensors, collate_fn=lambda b: [int(x) for x in b])) == [
        [0, 10],
        [20],
    ]
    with pytest.raises(TypeError, match="not iterable"):
        next(iter(load(words, 1, batch_sampler=[3])))


def test_getitems_gets_whole_batches() -> None:
    """A dataset that loads many at once is asked once for a batch, and may return what it likes."""

    class Table:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            raise AssertionError("not one by one")

        def __getitems__(self, indices: list[int]) -> dict[str, list[int]]:
            self.calls.append(indices)
            return {"rows": indices}

    table = Table()
    assert list(load(table, 3, collate_fn=as_given)) == [{"rows": [0, 1, 2]}, {"rows": [3, 4, 5]}]
    assert sorted(table.calls) == [[0, 1, 2], [3, 4, 5]]
    assert not may_split(table)
    assert not may_split(Subset(table, [1]))  # type: ignore[arg-type]


def test_torchs_wrappers_are_cut_if_what_they_wrap_can_be() -> None:
    """Subset and StackDataset have ``__getitems__`` but ask one by one, unless what they hold has it too."""
    numbers: Any = Squares(9)
    assert may_split(Subset(numbers, [1, 2]))
    assert may_split(StackDataset(numbers, Subset(numbers, list(range(9)))))
    assert [b.tolist() for b in load(Subset(numbers, [3, 1, 2]), 2)] == [[9, 1], [4]]


def test_timeout_is_torchs_error_and_loses_nothing() -> None:
    """A batch that is late raises what torch raises; asked again, the iterator has it."""
    gate = threading.Event()

    class Late(Squares):
        def __getitem__(self, index: int) -> int:
            assert gate.wait(100)
            return super().__getitem__(index)

    batches = iter(load(Late(4), 2, timeout=0.01, collate_fn=as_given))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.01 seconds"):
        next(batches)
    gate.set()
    found: list[Any] = []
    while len(found) < 2:
        try:
            found.append(next(batches))
        except TimeoutError:
            continue
    assert found == [[0, 1], [4, 9]]


def test_iterators_are_independent() -> None:
    """Two at once each give all batches; one that is dropped, or closed, ends alone."""
    loader = load(Squares(8), 2, collate_fn=as_given)
    for first, second in zip(loader, loader, strict=True):
        assert first == second
    held = iter(loader)
    next(held)
    for _ in loader:
        break
    assert len(list(held)) == 3
    closed = iter(loader)
    next(closed)
    closed.close()
    assert list(closed) == []


def test_iterator_in_a_cycle_ends_when_it_is_collected() -> None:
    """What holds itself is ended by the collector, and the threads with it (the leak check looks)."""
    cycle: list[Any] = [iter(load(Squares(100), 2))]
    cycle.append(cycle)
    next(cycle[0])
    del cycle
    gc.collect()


def test_a_pipeline_may_be_collected_before_the_iterator_that_feeds_it() -> None:
    """The collector takes what is in a cycle in any order. The source waits for the iterator, and ends all the same."""
    epoch = iter(load(Squares(100), 2))
    next(epoch)
    assert any("-source" in thread.name for thread in threading.enumerate())
    epoch._batches._pipeline = None
    assert not any("-source" in thread.name for thread in threading.enumerate())


def test_infinite_sampler_and_break() -> None:
    """A sampler without an end is drawn from as far as batches are taken."""

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            while True:
                yield 1

    loader = load(Squares(2), 2, sampler=Sampler())
    with pytest.raises(TypeError):
        len(loader)
    for number, batch in enumerate(loader):
        assert batch.tolist() == [1, 1]
        if number == 20:
            break


@pytest.mark.parametrize("num_workers", [0, 2])
def test_stop_iteration_of_the_dataset_does_not_end_the_epoch(num_workers: int) -> None:
    """It would end the consumer's loop without a word."""

    class Ending(Squares):
        def __getitem__(self, index: int) -> int:
            if index == 3:
                raise StopIteration
            return super().__getitem__(index)

    batches = iter(load(Ending(6), 2, num_workers=num_workers, collate_fn=as_given))
    assert next(batches) == [0, 1]
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        next(batches)
    assert list(batches) == [[16, 25]]


def test_errors_that_are_no_exceptions_reach_the_consumer() -> None:
    """``SystemExit`` in a thread would end that thread and nothing else."""

    class Exiting(Squares):
        def __getitem__(self, index: int) -> int:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        next(iter(load(Exiting(4))))


def test_nothing_is_pickled() -> None:
    """Datasets and functions that do not pickle are as good as any."""

    class Local(Squares):
        def __reduce__(self) -> Any:
            raise AssertionError("pickled")

    found: Iterable[Any] = load(Local(4), 2, collate_fn=lambda samples: sum(samples))
    assert list(found) == [1, 13]
