"""``prefetch_to_device``: how far ahead, in which order of calls, and how it ends."""

import copy
import gc
import os
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spdl.dataloader import DataLoader, DeviceLoader, _device, get_pytorch_dataloader, prefetch_to_device
from spdl.io._devices import _staging
from tests.support.child import run_child
from tests.support.fake_cuda import FakeTorch
from tests.support.timeouts import TIMEOUT

torch = pytest.importorskip("torch")


class Recorded:
    """A tensor on the way, as far as the hand-over is concerned."""

    def __init__(self, fake: FakeTorch) -> None:
        self._fake = fake

    def record_stream(self, stream: Any) -> None:
        self._fake.note(f"recorded on {stream.name}")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """A CUDA that writes down what it is asked for."""
    fake = FakeTorch()
    monkeypatch.setattr(_device, "_find_device", lambda device: fake.the_device)
    monkeypatch.setattr(_device, "get_torch", lambda: fake)
    monkeypatch.setattr(_staging, "dense_parts", lambda tensor: [Recorded(fake)])
    return fake


class Counting:
    """A loader that says how far it was read."""

    def __init__(self, size: int = 5) -> None:
        self.size = size
        self.num_read = 0
        self.num_closed = 0
        self.threads: set[str] = set()
        self.was_read = threading.Condition()

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        try:
            for index in range(self.size):
                with self.was_read:
                    self.num_read += 1
                    self.threads.add(threading.current_thread().name)
                    self.was_read.notify_all()
                yield torch.full((index + 1,), index)
        finally:
            self.num_closed += 1

    def await_read(self, num: int) -> None:
        with self.was_read:
            assert self.was_read.wait_for(lambda: self.num_read >= num, TIMEOUT)


def sizes(batches: Any) -> list[int]:
    return [len(batch) for batch in batches]


def test_batches_are_on_the_device_in_order_again_and_again(fake: FakeTorch) -> None:
    """All of them, in each epoch; the loader is read in a thread."""
    loader = Counting()
    moved = prefetch_to_device(loader)
    for _ in range(3):
        batches = list(moved)
        assert sizes(batches) == [1, 2, 3, 4, 5]
        assert all(batch.device == fake.the_device for batch in batches)
    assert loader.threads == {"spdl-prefetch"}
    assert loader.num_closed == 3


def test_the_consumer_waits_for_an_event_and_for_nothing_else(fake: FakeTorch) -> None:
    """Its current stream, at the time it asks; every tensor is recorded on that stream."""
    iterator = iter(prefetch_to_device([[torch.ones(1), torch.ones(2)]]))
    mine = fake.cuda.Stream(None)
    with fake.cuda.stream(mine):
        next(iterator)
    assert [note for note in fake.notes if note.startswith((mine.name, "recorded", "host"))] == [
        f"{mine.name} waits for event 1",
        f"recorded on {mine.name}",
        f"recorded on {mine.name}",
    ]
    assert next(iterator, None) is None


def test_streams_are_kept_between_epochs(fake: FakeTorch) -> None:
    """Epochs one after the other share one; those at once do not."""
    moved = prefetch_to_device([torch.ones(1)] * 3)
    for _ in range(3):
        list(moved)
    assert not any("stream 2" in note for note in fake.notes)
    assert [(len(one), len(other)) for one, other in zip(moved, moved, strict=True)] == [(1, 1)] * 3
    assert any("stream 2" in note for note in fake.notes)


@pytest.mark.parametrize("num_prefetch", [1, 2, 4])
def test_it_is_so_many_batches_ahead_and_no_more(fake: FakeTorch, num_prefetch: int) -> None:
    """Counted without the one that the consumer has."""
    loader = Counting(10)
    iterator = iter(prefetch_to_device(loader, num_prefetch=num_prefetch))
    loader.await_read(num_prefetch)
    assert loader.num_read == num_prefetch
    for num_taken in range(1, 4):
        next(iterator)
        loader.await_read(num_prefetch + num_taken)
        assert loader.num_read == num_prefetch + num_taken
    del iterator


def test_failures_come_in_their_place_and_unchanged(fake: FakeTorch) -> None:
    """What was loaded before comes first; the thread asks for no more until the consumer does."""
    error = LookupError("gone")

    class Stumbling:
        num_asked = 0

        def __iter__(self) -> "Stumbling":
            return self

        def __next__(self) -> Any:
            self.num_asked += 1
            if self.num_asked == 3:
                raise error
            if self.num_asked == 5:
                raise StopIteration
            return torch.ones(self.num_asked)

    loader = Stumbling()
    iterator = iter(prefetch_to_device(loader, num_prefetch=4))
    assert [len(next(iterator)), len(next(iterator))] == [1, 2]
    with pytest.raises(LookupError) as caught:
        next(iterator)
    assert caught.value is error
    assert loader.num_asked == 3
    assert sizes(iterator) == [4]


def test_a_batch_that_cannot_be_moved_is_a_failure(fake: FakeTorch) -> None:
    """With a note; the others come. Not even StopIteration ends the epoch unseen."""

    class Odd(dict[str, Any]):
        def __init__(self, error: Exception) -> None:
            super().__init__(x=torch.ones(1))
            self.error = error

        def __copy__(self) -> Any:
            raise self.error

    iterator = iter(prefetch_to_device([Odd(MemoryError("full")), Odd(StopIteration()), torch.ones(1)]))
    with pytest.raises(MemoryError, match="full") as caught:
        next(iterator)
    assert any("while moving a batch" in note for note in caught.value.__notes__)
    with pytest.raises(RuntimeError, match="StopIteration"):
        next(iterator)
    assert sizes(iterator) == [1]


def leave(iterator: Any) -> None:
    iterator.close()
    assert next(iterator, None) is None


def drop(iterator: Any) -> None:
    del iterator


@pytest.mark.parametrize("num_taken", [0, 1, 4, 5])
@pytest.mark.parametrize("end", [leave, drop])
def test_every_end_closes_the_loader_and_joins_the_thread(fake: FakeTorch, end: Any, num_taken: int) -> None:
    """At any moment."""
    before = set(threading.enumerate())
    loader = Counting()
    iterators = [iter(prefetch_to_device(loader))]
    loader.await_read(2)
    for _ in range(num_taken):
        next(iterators[0])
    end(iterators.pop())
    gc.collect()
    assert loader.num_closed == 1
    assert set(threading.enumerate()) <= before


def test_collected_in_its_own_thread_it_does_not_wait_for_itself(fake: FakeTorch) -> None:
    """A cycle may be collected anywhere."""
    iterators: list[Any] = []
    dropped = threading.Event()
    before = set(threading.enumerate())

    def loader() -> Iterator[Any]:
        yield torch.ones(1)
        assert dropped.wait(TIMEOUT)
        iterators.clear()
        yield torch.ones(2)

    iterators.append(iter(prefetch_to_device(loader())))
    (thread,) = set(threading.enumerate()) - before
    next(iterators[0])
    dropped.set()
    thread.join(TIMEOUT)
    assert not thread.is_alive()


@pytest.mark.parametrize("num_prefetch", [1, 4])
def test_prefetched_batches_do_not_count_as_taken(fake: FakeTorch, num_prefetch: int) -> None:
    """The state is that of the batches which the user has, whatever the thread has read."""

    def make() -> Any:
        batches = [[0] * size for size in range(1, 11)]  # which one it is can be seen from its size
        loader = get_pytorch_dataloader([torch.zeros(1)], batch_sampler=batches, workers="thread", num_workers=2)
        return prefetch_to_device(loader, num_prefetch=num_prefetch)

    whole = sizes(make())
    for count in (0, 1, 5, 10):
        loader = make()
        batches = iter(loader)
        taken = [len(next(batches)) for _ in range(count)]
        state = loader.state_dict()
        batches.close()
        other = make()
        other.load_state_dict(state)
        assert taken + sizes(other) == whole == [*range(1, 11)]
        assert sizes(other) == whole, "and then the next epoch"


def test_a_batch_that_was_taken_is_not_kept(fake: FakeTorch) -> None:
    """The thread holds neither the batch nor what it was made of while it waits."""

    class Batch(dict[str, Any]):
        """One that can be referred to weakly."""

    import weakref

    made: list[Any] = []

    def loader() -> Iterator[Any]:
        for _ in range(3):
            batch = Batch(x=torch.ones(1))
            made.append(weakref.ref(batch))
            yield batch
            del batch

    iterator = iter(prefetch_to_device(loader(), num_prefetch=1))
    batch = next(iterator)
    taken = weakref.ref(batch)
    del batch
    next(iterator)
    assert taken() is None
    assert made[0]() is None
    del iterator


def test_pipelines_may_be_inside(fake: FakeTorch) -> None:
    """Both end with the loop."""
    loader: DataLoader[int, Any] = DataLoader(range(100), preprocessor=torch.ones, num_threads=2, timeout=TIMEOUT)
    for _ in range(3):
        for num_taken, _batch in enumerate(prefetch_to_device(loader)):
            if num_taken == 3:
                break


def test_an_iterator_of_a_fork_says_so(fake: FakeTorch) -> None:
    """It would wait for a thread that is not there."""
    iterator: Any = iter(prefetch_to_device([torch.ones(1)] * 3))
    iterator._pid = os.getpid() + 1
    with pytest.raises(RuntimeError, match="forked"):
        next(iterator)
    del iterator


def test_one_that_was_pickled_or_copied_works(fake: FakeTorch) -> None:
    """Streams stay behind; the loader goes with it."""
    moved = prefetch_to_device([torch.ones(1)], num_prefetch=3)
    list(moved)
    for other in (pickle.loads(pickle.dumps(moved)), copy.copy(moved), copy.deepcopy(moved)):
        assert isinstance(other, DeviceLoader)
        assert other.num_prefetch == 3
        assert sizes(other) == [1]
        assert other._movers is not moved._movers
    with pytest.raises(NotImplementedError, match="pickle the loader"):
        pickle.dumps(iter(moved))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_prefetch": 0}, ValueError),
        ({"num_prefetch": 1.5}, TypeError),
        ({"device": "mps"}, ValueError),
        ({"device": "toaster"}, ValueError),
        ({"device": 0}, ValueError),
    ],
)
def test_arguments_are_checked_when_it_is_made(options: dict[str, Any], error: type[Exception]) -> None:
    """Whether or not there is CUDA."""
    with pytest.raises(error):
        prefetch_to_device([], **options)


def test_the_cpu_asks_nothing_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are passed on; not even whether there is a GPU is asked."""

    def fail(*args: Any, **options: Any) -> Any:
        raise AssertionError("asked")

    for name in ("is_available", "device_count", "current_device", "Stream", "Event"):
        monkeypatch.setattr(torch.cuda, name, fail)
    batch = torch.ones(1)
    assert next(iter(prefetch_to_device([batch], device="cpu"))) is batch


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:3"])
def test_a_gpu_that_is_not_there_is_told(device: str) -> None:
    """Where the epoch begins."""
    with pytest.raises(RuntimeError, match="cuda:"):
        iter(prefetch_to_device([], device=device))


def test_what_is_asked_of_it_is_asked_of_the_loader() -> None:
    """And it is true even if it is empty."""
    moved = prefetch_to_device(Counting(0))
    assert moved
    assert len(moved) == 0
    assert moved.num_read == 0
    assert "Counting" in repr(moved)


IN_A_CHILD = """
    import itertools, os, torch
    from spdl.dataloader import _device, prefetch_to_device
    from spdl.io._devices import _staging
    from tests.support.fake_cuda import FakeTorch

    fake = FakeTorch()
    _device._find_device = lambda device: fake.the_device
    _device.get_torch = lambda: fake
    _staging.dense_parts = lambda tensor: []

    iterator = iter(prefetch_to_device(torch.ones(1) for _ in itertools.count()))
    next(iterator)
"""


@pytest.mark.slow
def test_the_interpreter_exits_while_an_iterator_is_alive() -> None:
    """The thread is ended first: it must not be inside of torch then."""
    run_child(IN_A_CHILD + "    print('over')\n").check("over")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_neither_waits_for_the_thread_nor_ends_it() -> None:
    """The parent goes on."""
    run_child(
        IN_A_CHILD
        + """
    import warnings
    warnings.simplefilter("ignore")  # a fork while there are threads
    pid = os.fork()
    if pid == 0:
        try:
            next(iterator)
        except RuntimeError as exc:
            iterator.close()
            os._exit(17 if "forked" in str(exc) else 1)
        os._exit(2)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    assert len(next(iterator)) == 1
"""
    ).check("17")
