"""What goes wrong in a dataset, a sampler or a function: its type, after which batch, and what comes next."""

import json
import pickle
from typing import Any

import pytest
import torch

from . import datasets
from .datasets import Awkward, Failing, FailingAwkwardly, FailingCollate, FailingSampler, Numbers, as_list
from .loaders import ALL, FORKS, QUICK, TIMEOUT, Raised, numbers_of, ours, read, reading, theirs

ERRORS: dict[str, BaseException] = {
    "value": ValueError("wrong"),
    "key": KeyError("missing"),
    "index": IndexError(3),
    "file": FileNotFoundError(2, "No such file or directory", "cat.jpg"),
    "unicode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "runtime": RuntimeError("a\nb"),
    "not implemented": NotImplementedError(),
    "memory": MemoryError(),
    "assertion": AssertionError("never"),
    "type": TypeError("no"),
    "attribute": AttributeError("no such thing"),
}


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": None}], ids=str)
def test_exceptions_of_the_dataset_arrive_in_their_place(way: str, options: dict[str, Any]) -> None:
    """Each with its own type, after the batches before it; whoever reads on gets the batches after it."""
    dataset: Any = Failing(40, {3 * k + 1: error for k, error in enumerate(ERRORS.values())})
    assert numbers_of(read(ours(way, dataset, **options))) == numbers_of(read(theirs(dataset, **options)))


@FORKS
def test_exceptions_are_where_those_of_torchs_workers_are() -> None:
    """The oracle with processes says the same as without, where an exception can be made of its message."""
    dataset: Any = Failing(20, {5: ValueError("wrong"), 11: KeyError("missing")})
    assert numbers_of(read(ours("process", dataset, 2))) == numbers_of(read(theirs(dataset, 2, num_workers=2)))


@pytest.mark.parametrize("way", ALL)
def test_exceptions_keep_what_they_say_and_carry(way: str) -> None:
    """The attributes of a FileNotFoundError, too; its message names what the user's code said."""
    dataset = Failing(8, {2: ERRORS["file"], 5: ERRORS["value"]})
    with reading(ours(way, dataset, 1)) as iterator:
        assert [int(next(iterator)) for _ in range(2)] == [0, 1]
        with pytest.raises(FileNotFoundError) as caught:
            next(iterator)
    assert caught.value.filename == "cat.jpg"
    assert caught.value.errno == 2
    told = "".join(_everything_told(caught.value))
    assert "__getitem__" in told, "the traceback of the worker is not shown"


@pytest.mark.parametrize("way", ["thread", "process"])
def test_exceptions_tell_where_they_happened(way: str) -> None:
    """A note names the worker and the batch of indices."""
    with reading(ours(way, Failing(8, {5: ValueError("wrong")}), 2)) as iterator, pytest.raises(ValueError) as caught:
        list(iterator)
    notes = " ".join(getattr(caught.value, "__notes__", []))
    assert "[4, 5]" in notes
    assert "worker" in notes.lower()


def _everything_told(exc: BaseException) -> list[str]:
    import traceback

    return traceback.format_exception(exc)


@pytest.mark.parametrize("way", ALL)
def test_exceptions_that_cannot_be_sent_still_tell_what_they_said(way: str) -> None:
    """Whatever the type becomes, it is an exception, at its place, and the rest goes on."""
    dataset = FailingAwkwardly(6)
    with reading(ours(way, dataset, 1)) as iterator:
        assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(Exception) as caught:
            next(iterator)
        assert "this and that" in "".join(_everything_told(caught.value))
        if way in QUICK:
            assert type(caught.value) is Awkward
        assert [int(each) for each in iterator] == [4, 5]


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("sample", [0, 4, 9])
def test_exceptions_of_collate_functions_arrive(way: str, sample: int) -> None:
    """At the batch they are about."""
    options: dict[str, Any] = {"batch_size": 2, "collate_fn": FailingCollate(sample)}
    assert numbers_of(read(ours(way, Numbers(), **options))) == numbers_of(read(theirs(Numbers(), **options)))


@pytest.mark.parametrize("way", ["inline", "thread", "process"])
@pytest.mark.parametrize("num_indices", [0, 1, 5, 8])
@pytest.mark.parametrize("batch_size", [2, None])
def test_exceptions_of_samplers_arrive(way: str, num_indices: int, batch_size: int | None) -> None:
    """With their type. Where indices are drawn ahead it may be before batches that were whole, as with torch."""
    options: dict[str, Any] = {"batch_size": batch_size, "sampler": FailingSampler(num_indices)}
    expected = numbers_of(read(theirs(Numbers(), **options)))
    steps = numbers_of(read(ours(way, Numbers(), **options)))
    if way == "inline":
        assert steps == expected
    else:
        assert steps.count(Raised(LookupError)) == 1
        before = steps[: steps.index(Raised(LookupError))]
        assert before == expected[: len(before)]


@pytest.mark.parametrize("way", ALL)
def test_indices_out_of_range_fail_alike(way: str) -> None:
    """An IndexError of the dataset is an error, not the end."""
    options: dict[str, Any] = {"sampler": [1, 99, 2], "batch_size": 1}
    assert numbers_of(read(ours(way, Numbers(), **options))) == numbers_of(read(theirs(Numbers(), **options)))


@pytest.mark.parametrize("way", ALL)
def test_the_loader_works_after_a_failed_epoch(way: str) -> None:
    """Left at the exception, the next epoch begins anew."""
    loader = ours(way, Failing(6, {2: ValueError("wrong")}), 1)
    for _ in range(2):
        with reading(loader) as iterator, pytest.raises(ValueError, match="wrong"):
            list(iterator)


@FORKS
@pytest.mark.parametrize("way", ["process", "auto"])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_failing_worker_init_fn_fails_the_loop(way: str, persistent_workers: bool) -> None:
    """Not ``iter``: with its type, in place of the first batch of that worker. What others load comes before it."""
    options: dict[str, Any] = {
        "num_workers": 2, "worker_init_fn": datasets.refuse, "batch_size": 2, "collate_fn": as_list,
    }  # fmt: skip
    expected = read(theirs(Numbers(), **options))
    assert expected[:3] == [[0, 1], Raised(LookupError), [4, 5]]
    loader = ours(way, Numbers(), persistent_workers=persistent_workers, **options)
    with reading(loader) as iterator:
        assert next(iterator) == [0, 1]
        with pytest.raises(LookupError, match="worker 1 does not want to"):
            next(iterator)
        assert next(iterator) == [4, 5]


@pytest.mark.parametrize("way", ["inline", "thread"])
def test_ctrl_c_and_exit_in_a_dataset_are_not_swallowed(way: str) -> None:
    """What is not an ordinary exception arrives as well, rather than hang."""
    for error in (KeyboardInterrupt(), SystemExit(3)):
        with reading(ours(way, Failing(6, {3: error}), 1)) as iterator, pytest.raises(type(error)):
            list(iterator)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "seconds"), [("thread", 1.25), ("process", 3.5)])
def test_a_read_that_takes_too_long_is_a_runtime_error(way: str, seconds: float) -> None:
    """As torch's, naming the seconds; the batches before it came. Workers need some of them to start."""
    read(ours(way, Numbers(2)))  # the first workers of a test run take longer than all others to start
    datasets.gate.clear()
    loader = ours(way, datasets.Stuck(6, 3), 1, timeout=seconds)
    try:
        with reading(loader) as iterator:
            assert [int(next(iterator)) for _ in range(2)] == [0, 1]
            with pytest.raises(RuntimeError, match=str(seconds)):
                [next(iterator) for _ in range(3)]
            datasets.gate.set()
    finally:
        datasets.gate.set()


def test_failures_pickle() -> None:
    """A trainer may send what its loader raised to another process."""
    with reading(ours("process", Failing(3, {1: ValueError("wrong")}), 1)) as iterator:
        next(iterator)
        with pytest.raises(ValueError, match="wrong") as caught:
            next(iterator)
    assert type(pickle.loads(pickle.dumps(caught.value))) is ValueError
    assert json.dumps(str(caught.value))


def test_timeouts_of_nothing_are_no_timeouts() -> None:
    """0 waits as long as it takes, as with torch."""
    assert TIMEOUT > 0
    for way in ("thread", "process"):
        assert torch.stack(read(ours(way, Numbers(3), timeout=0))).flatten().tolist() == [0, 1, 2]


@pytest.mark.parametrize("way", ["thread", "process"])
def test_stop_iteration_in_a_dataset_does_not_end_the_epoch_silently(way: str) -> None:
    """Torch ends the loop there and loses the rest without a word; nothing is lost silently here."""
    steps = read(ours(way, Failing(6, {3: StopIteration("gone")}), 1))
    assert Raised(RuntimeError) in steps, "the rest of the epoch was lost silently"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_worker_that_leaves_fails_the_loop(error: type[BaseException]) -> None:
    """It does not take the consumer with it, and nothing hangs. What others had not sent by then may not come."""
    taken: list[int] = []
    with reading(ours("process", datasets.Exiting(6, error), 1)) as iterator:
        with pytest.raises(RuntimeError, match=error.__name__):
            taken.extend(map(int, iterator))
        assert taken == [0, 1, 2][: len(taken)]
        assert next(iterator, None) is None
