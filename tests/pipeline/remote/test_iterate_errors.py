"""``iterate_in_subprocess``: what fails in the worker, or ends it, is told with its text; then the worker is gone."""

import collections
import os
import pickle
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import WorkerDiedError, WorkerError, WorkerTimeoutError, iterate_in_subprocess
from tests.support import ops, remote
from tests.support.leaving import hurry, iterate, process_in

ENDS = [0, 3, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGQUIT]


def gone(iterable: Any, pid: int | None = None) -> None:
    """Its worker has ended, and every later iteration says so."""
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Cannot iterate again"):
            next(iter(iterable))
    if pid is not None:
        remote.await_end(pid)


# -- before the first item


@pytest.mark.parametrize("position", [0, 1])
def test_a_failing_initializer_is_told_by_the_call(position: int, tmp_path: Path) -> None:
    """With the type, the message and the traceback of what it raised; no later one runs, and ``fn`` does not."""
    calls: list[Callable[[], None]] = [partial(remote.append_process_id, tmp_path / "pid")] * position
    failing = partial(remote.fail_here, KeyError("no such key"))
    after = partial(remote.append_to, tmp_path / "after", "ran")
    with pytest.raises(WorkerError, match="Initializer failed") as info:
        iterate(partial(_leave_mark, tmp_path / "fn"), initializer=[*calls, failing, after])
    assert "KeyError" in str(info.value)
    assert "no such key" in str(info.value)
    assert "fail_here" in (info.value.remote_traceback or "")
    assert not (tmp_path / "after").exists()
    assert not (tmp_path / "fn").exists()
    if position:
        remote.await_end(process_in(tmp_path / "pid"))


def _leave_mark(path: Path) -> list[int]:
    remote.append_to(path, "made")
    return []


def test_a_failing_fn_is_told_by_the_call(tmp_path: Path) -> None:
    """The worker ends."""
    with pytest.raises(RuntimeError, match="Failed to create the iterable") as info:
        iterate(
            partial(remote.fail_here, OSError(5, "broken disk")),
            initializer=partial(remote.append_process_id, tmp_path / "pid"),
        )
    assert isinstance(info.value, WorkerError)
    assert "OSError" in str(info.value)
    assert "broken disk" in str(info.value)
    remote.await_end(process_in(tmp_path / "pid"))


@pytest.mark.parametrize("what", [None, 5])
def test_fn_that_gives_nothing_to_iterate_is_told(what: Any) -> None:
    """When it is made, or when it is first iterated: a WorkerError names the type."""
    with pytest.raises(WorkerError, match=r"Failed to create the itera(ble|tor)") as info:
        next(iter(iterate(partial(ops.same, what))))
    assert type(what).__name__ in str(info.value)


def test_iter_that_raises_is_told_by_the_first_read() -> None:
    """And only then: making the worker went well."""
    iterable = iterate(remote.NotToday)
    with pytest.raises(WorkerError, match="Failed to create the iterator") as info:
        next(iter(iterable))
    assert "ValueError" in str(info.value)
    assert "not today" in str(info.value)
    gone(iterable)


@pytest.mark.parametrize("how", ENDS)
def test_a_worker_that_ends_while_it_is_made_is_told_by_the_call(how: int) -> None:
    """With its exit code, or its signal by name."""
    with pytest.raises(WorkerDiedError, match=r"The worker subprocess exited unexpectedly\.") as info:
        iterate(partial(remote.give, []), initializer=partial(remote.break_down, how), timeout=None)
    assert info.value.exit_code == how
    assert remote.name_of(how) in str(info.value)


def test_an_initializer_that_never_returns_is_given_up(tmp_path: Path) -> None:
    """After the time for which there may be silence; its process is ended."""
    calls = [partial(remote.append_process_id, tmp_path / "pid"), partial(ops.block, None)]
    with pytest.raises(WorkerTimeoutError, match="The worker subprocess did not produce any data for"):
        iterate_in_subprocess(partial(remote.give, []), initializer=calls, timeout=1.0)
    if (tmp_path / "pid").exists():  # beside other load, time may be up before that
        remote.await_end(process_in(tmp_path / "pid"))


@pytest.mark.parametrize("context", ["thread", "", 5])
def test_an_unknown_context_is_refused(context: Any) -> None:
    """A ValueError of the call."""
    with pytest.raises(ValueError):
        iterate(partial(remote.give, []), mp_context=context)


# -- while iterating


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a value"),
        KeyError("a key"),
        RuntimeError("first", "second"),
        OSError(2, "no such thing", "name"),
        StopAsyncIteration("odd"),
        MemoryError("too much"),
        ExceptionGroup("several", [ValueError("inner one"), TypeError("inner two")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_source_comes_after_its_items(error: Exception) -> None:
    """As a WorkerError with type, message and traceback; then the worker is gone."""
    iterable = iterate(partial(remote.fail_after, 3, error))
    iterator = iter(iterable)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(WorkerError, match="Failed to fetch the next item") as info:
        next(iterator)
    assert type(error).__name__ in str(info.value)
    for word in error.args:
        assert isinstance(word, list) or str(word) in str(info.value)
    assert "fail_after" in (info.value.remote_traceback or "") or "__iter__" in (info.value.remote_traceback or "")
    gone(iterable)


def test_an_error_that_does_not_pickle_crosses_as_text() -> None:
    """Its constructor takes two arguments, and nobody calls it here."""
    iterator = iter(iterate(partial(remote.awkward_after, 1)))
    assert next(iterator) == 0
    with pytest.raises(WorkerError, match="Failed to fetch the next item") as info:
        next(iterator)
    assert "Awkward" in str(info.value)
    assert "this and that" in str(info.value)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_is_no_ordinary_exception_is_told_too(error: BaseException) -> None:
    """However the worker ends by it, the reader gets a WorkerError."""
    iterable = iterate(partial(remote.fail_after, 1, error))
    iterator = iter(iterable)
    assert next(iterator) == 0
    with pytest.raises(WorkerError):
        next(iterator)
    gone(iterable)


def test_an_item_that_does_not_pickle_is_told() -> None:
    """After those before it, with the reason."""
    iterable = iterate(partial(remote.unpicklable_at, 2))
    iterator = iter(iterable)
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(WorkerError, match="Failed to fetch the next item") as info:
        next(iterator)
    assert "this one stays at home" in str(info.value)
    gone(iterable)


def test_an_item_that_does_not_unpickle_is_told() -> None:
    """The fault shows here, and is an error of the read."""
    iterable = iterate(remote.BreakingOnArrival)
    iterator = iter(iterable)
    assert next(iterator) == 1
    with pytest.raises(Exception, match="no number"):
        next(iterator)


def test_nothing_for_some_time_is_told() -> None:
    """WorkerTimeoutError, which is a TimeoutError and a RuntimeError; the worker, which blocks, is gone."""
    iterable = iterate(partial(remote.block_for_ever, 1))
    iterator = iter(iterable)
    pid = next(iterator)
    hurry(iterable)
    with pytest.raises(RuntimeError, match="The worker subprocess did not produce any data for") as info:
        next(iterator)
    assert isinstance(info.value, WorkerTimeoutError)
    assert isinstance(info.value, TimeoutError)
    gone(iterable, pid)


@pytest.mark.parametrize("how", ENDS)
def test_a_worker_that_ends_is_told(how: int) -> None:
    """What it had given comes first; then its exit code, or its signal by name. No time limit is needed for it."""
    iterable = iterate_in_subprocess(partial(remote.die_after, 2, how), buffer_size=1)
    iterator = iter(iterable)
    assert next(iterator) == next(iterator) != os.getpid()  # step by step: both have been taken when it dies
    with pytest.raises(RuntimeError, match=r"The worker subprocess exited unexpectedly\.") as info:
        next(iterator)
    assert isinstance(info.value, WorkerDiedError)
    assert info.value.exit_code == how
    assert remote.name_of(how) in str(info.value)
    gone(iterable)


def test_a_worker_killed_between_two_iterations_is_told_by_the_next() -> None:
    """It does not have to be reading."""
    iterable = iterate_in_subprocess(remote.process_ids)
    (pid,) = iterable
    os.kill(pid, signal.SIGKILL)
    remote.await_end(pid)
    with pytest.raises(WorkerDiedError, match=r"The worker subprocess exited unexpectedly\.") as info:
        list(iterable)
    assert info.value.exit_code == -signal.SIGKILL
    gone(iterable)


def test_a_worker_killed_while_it_computes_is_told() -> None:
    """The read that waits for it ends."""
    iterator = iter(iterate_in_subprocess(partial(remote.block_for_ever, 1)))
    pid = next(iterator)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        next(iterator)


def test_a_worker_killed_in_the_middle_of_a_large_item_is_told() -> None:
    """Half an item is no item."""
    iterator = iter(iterate_in_subprocess(partial(remote.ids_with_ballast, 3, 3_000_000), buffer_size=1))
    pid, _ = next(iterator)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match=r"The worker subprocess exited unexpectedly\."):
        list(iterator)


def test_a_worker_that_was_stopped_by_a_signal_is_told_when_time_is_up() -> None:
    """SIGSTOP: it neither answers nor ends; it is killed."""
    iterable = iterate(remote.ids_for_ever)
    iterator = iter(iterable)
    pid = next(iterator)
    hurry(iterable)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(WorkerTimeoutError, match="did not produce any data for"):
        collections.deque(iterator, maxlen=0)
    gone(iterable, pid)


def test_errors_of_workers_pickle() -> None:
    """Type, text and attributes."""
    iterator = iter(iterate_in_subprocess(partial(remote.die_after, 0, 3)))
    with pytest.raises(WorkerDiedError) as info:
        next(iterator)
    copy = pickle.loads(pickle.dumps(info.value))
    assert (type(copy), str(copy), copy.exit_code) == (WorkerDiedError, str(info.value), 3)


def test_an_iterator_from_before_the_error_is_over() -> None:
    """It raises or ends; it does not hang, and gives nothing."""
    iterator = iter(iterate(partial(remote.fail_after, 0, ValueError("early"))))
    with pytest.raises(WorkerError, match="early"):
        next(iterator)
    with pytest.raises((StopIteration, RuntimeError)):
        next(iterator)
