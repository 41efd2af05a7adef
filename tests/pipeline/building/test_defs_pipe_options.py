"""``Pipe``: what its options accept, keep and refuse together."""

import functools
from concurrent.futures import Executor, Future
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline.defs import Pipe, PipeConfig, Retry
from tests.pipeline.building.kinds import (
    AsyncCallable,
    AsyncContainer,
    AsyncGeneratorCallable,
    SyncCallable,
    async_generator_op,
    async_op,
    generator_op,
    sync_op,
)


class NoExecutor(Executor):
    """An executor of the user's own that starts nothing."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise NotImplementedError


class Index:
    """An integer of another kind, as NumPy has them."""

    def __index__(self) -> int:
        return 4


def test_defaults() -> None:
    """One call at a time on the pipeline's threads, results as calls end, the pipeline's own limit."""
    config = Pipe(sync_op)
    assert (config._concurrency, config._executor, config._output_order) == (1, None, "completion")
    assert config._max_failures is None
    assert (config._isolate, config._retry, config._timeout) == (False, None, None)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_concurrency_below_one_is_refused(concurrency: int) -> None:
    """A stage without calls would never end."""
    with pytest.raises(ValueError, match=f"concurrency must be >= 1, got {concurrency}"):
        Pipe(sync_op, concurrency=concurrency)


@pytest.mark.parametrize("concurrency", [True, 1.5, "2", None])
def test_concurrency_must_be_an_int(concurrency: Any) -> None:
    """Neither bool nor anything else stands for a number of calls."""
    with pytest.raises(TypeError, match="concurrency must be an int"):
        Pipe(sync_op, concurrency=concurrency)


def test_integers_of_other_kinds_become_ints() -> None:
    """What Python takes for an index is a whole number."""
    config = Pipe(sync_op, concurrency=Index(), max_failures=Index())  # type: ignore[arg-type]  # as NumPy's
    assert type(config._concurrency) is int
    assert (config._concurrency, config._max_failures) == (4, 4)


@pytest.mark.parametrize("order", ["INPUT", "", None, 1])
def test_unknown_output_order_is_refused(order: Any) -> None:
    """There are two orders."""
    with pytest.raises(ValueError, match="output_order must be 'completion' or 'input'"):
        Pipe(sync_op, output_order=order)


@pytest.mark.parametrize("op", [async_generator_op, AsyncGeneratorCallable(), functools.partial(async_generator_op)])
def test_async_generator_cannot_keep_input_order(op: Any) -> None:
    """What an async generator yields is emitted as it comes."""
    with pytest.raises(ValueError, match="output_order='input' does not work with an async generator"):
        Pipe(op, output_order="input")


@pytest.mark.parametrize("op", [sync_op, async_op, generator_op, [1]])
def test_other_kinds_can_keep_input_order(op: Any) -> None:
    """Every other kind of op does both orders."""
    assert Pipe(op, output_order="input")._output_order == "input"


@pytest.mark.parametrize("op", [async_op, async_generator_op, AsyncCallable(), AsyncContainer()])
def test_async_op_cannot_have_an_executor(op: Any) -> None:
    """Async ops run on the event loop, nowhere else."""
    with pytest.raises(ValueError, match="executor cannot be given with an async op"):
        Pipe(op, executor=NoExecutor())


@pytest.mark.parametrize("op", [sync_op, generator_op, SyncCallable(), [1]])
def test_sync_op_can_have_an_executor(op: Any) -> None:
    """Any executor will do, as it is."""
    executor = NoExecutor()
    assert Pipe(op, executor=executor)._executor is executor


@pytest.mark.parametrize("executor", [4, "threads", NoExecutor])
def test_executor_must_be_one(executor: Any) -> None:
    """A number of threads is no executor, and neither is a class of them."""
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor"):
        Pipe(sync_op, executor=executor)


def test_name_must_be_text() -> None:
    """A name is used in log lines and statistics."""
    with pytest.raises(TypeError, match="name must be a str, got 5"):
        Pipe(sync_op, name=5)  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("limit", [True, False, 0.5, 1.0, "3", (1, 2)])
def test_max_failures_of_another_type_points_to_fraction(limit: Any) -> None:
    """A float is a trap: 1.0 could mean one failure or all of them."""
    with pytest.raises(
        TypeError, match=r"max_failures must be an int .* a fractions\.Fraction .* or a spdl\.pipeline\.Rate"
    ):
        Pipe(sync_op, max_failures=limit)


@pytest.mark.parametrize("limit", [-1, 0, 7, Fraction(1, 3), Fraction(1), Fraction(3, 2)])
def test_max_failures_is_kept(limit: int | Fraction) -> None:
    """The range of a fraction is judged at build."""
    assert Pipe(sync_op, max_failures=limit)._max_failures == limit


@pytest.mark.parametrize("op", [async_op, async_generator_op, AsyncCallable(), AsyncContainer()])
def test_async_op_cannot_be_isolated(op: Any) -> None:
    """Async ops run on the event loop, nowhere else."""
    with pytest.raises(ValueError, match="isolate=True cannot be given with an async op"):
        Pipe(op, isolate=True)


def test_isolated_op_cannot_have_an_executor() -> None:
    """A stage runs in one place."""
    with pytest.raises(ValueError, match="isolate=True cannot be given with an executor"):
        Pipe(sync_op, isolate=True, executor=NoExecutor())


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_isolate_must_be_a_bool(value: Any) -> None:
    """A number of processes is what ``concurrency`` is for."""
    with pytest.raises(TypeError, match="isolate must be a bool"):
        Pipe(sync_op, isolate=value)


@pytest.mark.parametrize("seconds", [0, -1, 0.0, float("inf"), float("nan")])
def test_timeout_that_no_call_can_keep_is_refused(seconds: float) -> None:
    """No limit is ``None``, and a limit is above zero."""
    with pytest.raises(ValueError, match="timeout must be"):
        Pipe(sync_op, call_timeout=seconds)


@pytest.mark.parametrize("seconds", [True, "5", [1]])
def test_timeout_must_be_a_number(seconds: Any) -> None:
    """Neither bool nor text stands for seconds."""
    with pytest.raises(TypeError, match="timeout must be a number"):
        Pipe(sync_op, call_timeout=seconds)


@pytest.mark.parametrize(("given", "kept"), [(None, None), (3, Retry(3)), (Retry(2, delay=0), Retry(2, delay=0.0))])
def test_retry_is_a_number_of_attempts_or_all_of_it(given: Any, kept: Retry | None) -> None:
    """A number is short for ``Retry`` of it."""
    assert Pipe(sync_op, retry=given)._retry == kept


@pytest.mark.parametrize("value", [True, 1.5, "3", ValueError])
def test_retry_must_be_one_or_an_int(value: Any) -> None:
    """The message says what it can be."""
    with pytest.raises(TypeError, match="retry must be an int"):
        Pipe(sync_op, retry=value)


@pytest.mark.parametrize("attempts", [0, -1])
def test_less_than_one_attempt_is_refused(attempts: int) -> None:
    """The first call counts."""
    with pytest.raises(ValueError, match="retry must be >= 1"):
        Pipe(sync_op, retry=attempts)


def test_config_is_frozen() -> None:
    """Who holds a description can rely on it."""
    config = Pipe(sync_op)
    with pytest.raises(AttributeError):
        config.name = "x"  # type: ignore[misc]  # what is tested


def test_config_can_be_made_through_an_alias() -> None:
    """``PipeConfig`` is generic in its input and output."""
    alias = PipeConfig[int, str]
    assert alias("x", sync_op, "sync").name == "x"
