"""What goes wrong in worker processes, and how the consumer hears of it."""

import gc
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spdl.dataloader._torch.processes._processes import ProcessRun  # noqa: E402 - they need torch
from spdl.pipeline import WorkerDiedError, WorkerError  # noqa: E402

from .process_datasets import (  # noqa: E402
    Counting,
    ExitsOnArrival,
    ExitsOnDeparture,
    Failing,
    FailsToIterate,
    FailsToUnpickle,
    Numbers,
    RaisesWhatExits,
    SlowToUnpickle,
    as_is,
    fail_to_init,
    plan_of,
    stop_at_once,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX")


def begin(dataset: Any, batch_size: int | None = None, **options: Any) -> Iterator[Any]:
    return ProcessRun(plan_of(dataset, batch_size, **options)).iterate()


def until_it_fails(batches: Iterator[Any]) -> tuple[list[Any], Exception]:
    """What came before, and what then went wrong."""
    taken: list[Any] = []
    with pytest.raises(Exception) as info:
        taken.extend(batches)
    return taken, info.value


def notes_of(exc: BaseException) -> str:
    return "\n".join(exc.__notes__)


def test_an_exception_comes_with_its_own_type_and_the_epoch_goes_on() -> None:
    """With its arguments, and a note that says where it was raised; the batches after it follow."""
    batches = begin(Failing("value"), 4, collate_fn=as_is)
    assert next(batches) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="a value\nin two lines") as info:
        next(batches)
    notes = notes_of(info.value)
    assert notes.startswith("DataLoader worker 1 (process ")
    assert "loading indices [4, 5, 6, 7]. Traceback there:\nTraceback (most recent call last):\n" in notes
    assert "in __getitem__" in notes
    assert list(batches) == [[8, 9, 10, 11], [12, 13, 14, 15]]


def test_the_text_of_a_key_error_stays_readable() -> None:
    """It is the same exception, with the key as its argument."""
    taken, exc = until_it_fails(begin(Failing("key"), num_workers=1))
    assert taken == [0, 1, 2, 3, 4]
    assert type(exc) is KeyError
    assert exc.args == ("a missing\nkey",)


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("unpicklable", WorkerError, r"DataLoader worker 0 .*, loading indices 5: 1 and 2 \(PicklesNot\)"),
        ("stop", RuntimeError, "raised StopIteration"),
        ("unsendable", TypeError, "cannot pickle '_thread.lock' object"),
        ("system-exit", WorkerError, r"DataLoader worker 0 failed: 3 \(SystemExit\)"),
        ("interrupt", WorkerError, r"DataLoader worker 0 failed: KeyboardInterrupt"),
        ("exit", WorkerDiedError, r"DataLoader worker 0 exited unexpectedly. Process \d+: exit code 7"),
        ("kill", WorkerDiedError, r"DataLoader worker 0 exited unexpectedly. Process \d+: killed by SIGKILL"),
        ("crash", WorkerDiedError, r"DataLoader worker 0 exited unexpectedly. Process \d+: killed by SIGSEGV"),
    ],
)
def test_whatever_happens_is_told(what: str, kind: type[Exception], words: str) -> None:
    """Nothing that a worker does ends the loop as if all batches had come; what came before is not lost."""
    taken, exc = until_it_fails(begin(Failing(what, length=7), num_workers=1))
    assert taken == [0, 1, 2, 3, 4]
    assert type(exc) is kind
    with pytest.raises(kind, match=words):
        raise exc


def test_a_death_ends_the_other_workers() -> None:
    """Nothing more comes; a persistent run starts others for its next epoch."""
    run = ProcessRun(plan_of(Failing("kill"), 1, collate_fn=as_is, persistent_workers=True))
    batches = run.iterate()
    taken, exc = until_it_fails(batches)
    assert isinstance(exc, WorkerDiedError)
    assert isinstance(exc, RuntimeError)
    assert taken == [[i] for i in range(len(taken))]
    assert list(batches) == []
    assert next(run.iterate()) == [0]
    run.close()


def test_a_death_is_noticed_while_another_worker_is_waited_for() -> None:
    """The other never answers. The death may overtake what that one has answered before."""
    taken, exc = until_it_fails(begin(Failing("hang-or-die"), 1, collate_fn=as_is))
    assert taken == [[index] for index in range(4)][: len(taken)]
    with pytest.raises(WorkerDiedError, match=r"worker 1 .*exit code 9"):
        raise exc


@pytest.mark.slow
def test_a_batch_that_takes_too_long_times_out() -> None:
    """With the words of torch; and with its type, of which ours is a kind."""
    # Long enough for the batches before it, also where the machine is busy.
    taken, error = until_it_fails(begin(Failing("hang"), num_workers=1, timeout=4.0))
    assert taken == [0, 1, 2, 3, 4]
    assert isinstance(error, RuntimeError)
    assert str(error) == "DataLoader timed out after 4 seconds"


@pytest.mark.slow
def test_the_start_of_workers_is_no_time_for_a_batch() -> None:
    """The dataset takes longer to arrive than a batch may take."""
    assert next(begin(SlowToUnpickle(1), num_workers=1, timeout=1.0))[0] == 0


def test_failures_may_be_logged_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Every other batch comes."""
    with caplog.at_level(logging.ERROR, "spdl.dataloader"):
        batches = list(begin(Failing("value"), 4, collate_fn=as_is, workers=None, in_order=False))
    assert sorted(batch[0] for batch in batches) == [0, 8, 12]
    (record,) = caplog.records
    assert record.getMessage().startswith("batch 1 was dropped, indices [4, 5, 6, 7]: a value")


def test_a_failing_worker_init_fn_is_raised_at_the_first_batch() -> None:
    """As with torch; the batches of workers whose own has returned come."""
    batches = begin(Numbers(6), 1, collate_fn=as_is, worker_init_fn=fail_to_init)
    assert next(batches)[0][0] == 0
    with pytest.raises(ValueError, match="init 1 failed"):
        next(batches)
    assert next(batches)[0][0] == 2
    with pytest.raises(ValueError, match="init 1 failed"):
        next(batches)


def test_a_failing_sampler_is_raised_where_it_failed() -> None:
    """The batches that it gave before come first."""

    def sampler() -> Iterator[list[int]]:
        yield [0, 1]
        yield [2]
        raise LookupError("no more")

    taken, exc = until_it_fails(begin(Numbers(), 1, collate_fn=as_is, indices=sampler()))
    assert [[index for index, _ in batch] for batch in taken] == [[0, 1], [2]]
    assert type(exc) is LookupError


def test_an_iterable_dataset_may_fail_to_begin() -> None:
    """At the first batch."""
    with pytest.raises(ValueError, match="cannot begin"):
        next(begin(FailsToIterate(1, 1)))


def test_a_collate_fn_that_stops_is_no_end_of_the_dataset() -> None:
    """A StopIteration of its own would look like one."""
    with pytest.raises(RuntimeError, match="loading an iterable dataset raised StopIteration"):
        list(begin(Counting(3, 3), 2, collate_fn=stop_at_once))


def test_a_dataset_that_does_not_unpickle_says_why() -> None:
    """The error of the worker names it."""
    with pytest.raises(WorkerError, match="the dataset cannot be unpickled there: not here"):
        next(begin(FailsToUnpickle()))


def test_pickling_that_asks_for_an_exit_is_an_error_only() -> None:
    """Of a batch, of an exception, and of the dataset. The consumer and the workers go on."""
    batches = begin(ExitsOnArrival(3), num_workers=1)
    assert next(batches) == 0
    with pytest.raises(RuntimeError, match="unpickling ended with SystemExit: 3"):
        next(batches)
    assert list(batches) == [2]
    with pytest.raises(WorkerError, match="no sample"):
        next(begin(RaisesWhatExits(1)))
    with pytest.raises(TypeError, match=r"the dataset cannot be sent .* \(SystemExit\)"):
        begin(ExitsOnDeparture(1), multiprocessing_context="forkserver")


@pytest.mark.parametrize("name", ["dataset", "collate_fn", "worker_init_fn"])
def test_what_does_not_pickle_is_named(name: str) -> None:
    """Where forking is no way out: another thread runs, or the start method was chosen."""
    lock = threading.Lock()

    def local(_: object) -> object:
        return lock

    options: dict[str, Any] = {"collate_fn": as_is, "multiprocessing_context": "forkserver"}
    dataset = Numbers(1)
    if name == "dataset":
        dataset.length = local  # type: ignore[assignment]
    else:
        options[name] = local
    plan = plan_of(dataset, None, indices=range(1), **options)
    run = ProcessRun(plan)
    words = name if name != "dataset" else "the dataset"
    with pytest.raises(TypeError, match=rf"^{words} cannot be sent to worker processes: it cannot be pickled: .*local"):
        run.iterate()


def test_a_failed_start_leaves_nothing() -> None:
    """The leak check of every test looks for what is left."""
    run = ProcessRun(plan_of(Numbers(4), multiprocessing_context="forkserver", worker_init_fn=lambda _: None))
    for _ in range(2):
        with pytest.raises(TypeError):
            run.iterate()
    gc.collect()


def test_a_sampler_that_cannot_begin_leaves_nothing() -> None:
    """The leak check looks for the workers: torch begins it once before they start, and once after."""

    class Sampler:
        def __init__(self) -> None:
            self.num_begun = 0

        def __iter__(self) -> Iterator[int]:
            self.num_begun += 1
            if self.num_begun > 1:
                raise LookupError("once")
            return iter(range(4))

    with pytest.raises(LookupError, match="once") as info:
        begin(Numbers(), indices=Sampler())
    assert info.value.__traceback__ is not None
