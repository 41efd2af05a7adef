"""The errors of ``spdl.pipeline``: their tree, their attributes, and that they survive pickling."""

import asyncio
import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._errors import (
    FailureLimitError,
    InternalError,
    InvalidOpError,
    PipelineError,
    PipelineFailure,
    PipelineStateError,
    PipelineStructureError,
    RemoteOpError,
    StageTimeoutError,
    UnsupportedPythonError,
    WorkerDiedError,
    WorkerError,
    WorkerTimeoutError,
)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


ERRORS: list[tuple[Exception, dict[str, object]]] = [
    (PipelineError("a"), {}),
    (PipelineStateError("a"), {}),
    (PipelineStructureError("a"), {}),
    (UnsupportedPythonError("a"), {}),
    (InternalError("a"), {}),
    (InvalidOpError("a"), {}),
    (
        FailureLimitError("a", stage="0:1:x", num_failures=3, num_calls=7, limit=Fraction(1, 3)),
        {"stage": "0:1:x", "num_failures": 3, "num_calls": 7, "limit": Fraction(1, 3)},
    ),
    (
        RemoteOpError("a", type_name="KeyError", remote_traceback="tb"),
        {"type_name": "KeyError", "remote_traceback": "tb"},
    ),
    (StageTimeoutError("a", stage="0:1:x", seconds=2.5), {"stage": "0:1:x", "seconds": 2.5}),
    (WorkerError("a", remote_traceback="tb"), {"remote_traceback": "tb"}),
    (WorkerDiedError("a", exit_code=-9), {"exit_code": -9, "remote_traceback": None}),
    (WorkerTimeoutError("a", remote_traceback="tb"), {"remote_traceback": "tb"}),
]


@pytest.mark.parametrize(("error", "attributes"), ERRORS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_error_keeps_text_attributes_and_notes_through_pickle(
    error: Exception, attributes: dict[str, object], protocol: int
) -> None:
    """Every error that crosses a process boundary says the same on the other side."""
    original = copy.copy(error)
    original.add_note("seen in a test")
    restored = pickle.loads(pickle.dumps(original, protocol))
    assert type(restored) is type(error)
    assert str(restored) == "a"
    assert restored.args == ("a",)
    assert {name: getattr(restored, name) for name in attributes} == attributes
    assert restored.__notes__ == ["seen in a test"]


@pytest.mark.parametrize(
    "cls",
    [
        PipelineStateError,
        PipelineStructureError,
        UnsupportedPythonError,
        FailureLimitError,
        RemoteOpError,
        StageTimeoutError,
        WorkerError,
        InternalError,
    ],
)
def test_pipeline_errors_are_runtime_errors(cls: type[Exception]) -> None:
    """Code that catches RuntimeError or PipelineError gets each of them."""
    assert issubclass(cls, PipelineError)
    assert issubclass(PipelineError, RuntimeError)


def test_worker_errors_are_also_what_their_name_says() -> None:
    """A worker that died or timed out is a WorkerError, the latter a TimeoutError too."""
    assert issubclass(WorkerDiedError, WorkerError)
    assert issubclass(WorkerTimeoutError, WorkerError)
    assert issubclass(WorkerTimeoutError, TimeoutError)


def test_stage_timeout_is_a_timeout() -> None:
    """Code that catches TimeoutError gets it."""
    assert issubclass(StageTimeoutError, TimeoutError)


def test_invalid_op_is_a_type_error_and_an_assertion_error() -> None:
    """Both ways in which callers catch a bad op work."""
    assert issubclass(InvalidOpError, TypeError)
    assert issubclass(InvalidOpError, AssertionError)


def test_failure_sorts_exceptions_by_stage_name() -> None:
    """The group holds the original exceptions in order of stage name."""
    first, second, third = KeyError(1), ValueError(2), OSError(3)
    failure = PipelineFailure([("b", second), ("c", third), ("a", first)])
    assert failure.exceptions == (first, second, third)
    assert failure.message == "pipeline stages failed"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError("bad size"), "ValueError: bad size"),
        (ValueError("bad\nsize"), "ValueError: bad …"),
        (ValueError(), "ValueError"),
        (Silent(), "Silent: <Silent object, its str failed with RuntimeError>"),
    ],
)
def test_the_text_of_a_failure_has_the_first_cause(error: Exception, cause: str) -> None:
    """A log that shows an error as one line shows only this."""
    failure = PipelineFailure([("b", KeyError()), ("a", error)])
    assert str(failure) == f"pipeline stages failed (2 sub-exceptions): {cause}"


def test_failure_accepts_an_iterator_of_pairs() -> None:
    """The pairs are read once, so a generator will do."""
    error = ValueError()
    assert PipelineFailure(pair for pair in [("a", error)]).exceptions == (error,)


def test_failures_of_one_stage_keep_their_order() -> None:
    """Two exceptions under one name are not compared with each other."""
    errors = [ValueError(i) for i in range(5)]
    assert PipelineFailure([("a", error) for error in errors]).exceptions == tuple(errors)


def test_failure_without_stages_is_refused() -> None:
    """A pipeline failure always has a cause."""
    with pytest.raises(ValueError, match="at least one pair"):
        PipelineFailure([])


@pytest.mark.parametrize("bad", [[ValueError()], [("a", ValueError(), 3)], 5])
def test_failure_refuses_what_is_not_pairs(bad: object) -> None:
    """The constructor says what it takes."""
    with pytest.raises(TypeError, match=r"pairs \(stage_name, exception\)"):
        PipelineFailure(bad)  # type: ignore[arg-type]  # what is tested


def test_failure_refuses_what_is_not_an_exception() -> None:
    """Only ordinary exceptions are failures of stages."""
    with pytest.raises(TypeError):
        PipelineFailure([("a", "text")])  # type: ignore[list-item]  # what is tested
    with pytest.raises(TypeError):
        PipelineFailure([("a", asyncio.CancelledError())])  # type: ignore[list-item]  # what is tested


def test_split_and_subgroup_give_pipeline_failures() -> None:
    """The parts are of the same class and keep notes, cause and context of the whole."""
    failure = PipelineFailure([("b", ValueError(1)), ("a", KeyError(2)), ("c", ValueError(3))])
    failure.add_note("note")
    cause = OSError()
    failure.__cause__ = cause
    match, rest = failure.split(ValueError)
    assert isinstance(match, PipelineFailure)
    assert isinstance(rest, PipelineFailure)
    assert [error.args for error in match.exceptions] == [(1,), (3,)]
    assert [error.args for error in rest.exceptions] == [(2,)]
    assert match.__notes__ == ["note"]
    assert match.__cause__ is cause
    assert isinstance(failure.subgroup(KeyError), PipelineFailure)
    assert failure.subgroup(OSError) is None


def test_split_reaches_into_groups_of_a_stage() -> None:
    """A stage whose own error is a group is divided as well."""
    failure = PipelineFailure([("a", ExceptionGroup("inner", [ValueError(1), KeyError(2)])), ("b", KeyError(3))])
    match, rest = failure.split(ValueError)
    assert isinstance(match, PipelineFailure)
    assert [type(error) for error in match.exceptions] == [ExceptionGroup]
    assert rest is not None
    assert len(rest.exceptions) == 2


def test_except_star_takes_a_failure_apart() -> None:
    """``except*`` handles some of the stages; the rest goes on as a PipelineFailure."""
    handled: list[BaseException] = []

    def handle_some() -> None:
        try:
            raise PipelineFailure([("a", ValueError(1)), ("b", KeyError(2))])
        except* ValueError as group:
            handled.append(group)

    with pytest.raises(PipelineFailure) as info:
        handle_some()
    assert isinstance(handled[0], PipelineFailure)
    assert [type(error) for error in info.value.exceptions] == [KeyError]


@given(st.lists(st.tuples(st.text(), st.integers()), min_size=1))
def test_failure_survives_pickle(pairs: list[tuple[str, int]]) -> None:
    """Order, notes and attributes are those of the original."""
    failure = PipelineFailure([(name, ValueError(number)) for name, number in pairs])
    failure.add_note("whole")
    for error in failure.exceptions:
        error.add_note("part")
    restored = pickle.loads(pickle.dumps(failure))
    assert type(restored) is PipelineFailure
    assert [error.args for error in restored.exceptions] == [error.args for error in failure.exceptions]
    assert restored.__notes__ == ["whole"]
    assert all(error.__notes__ == ["part"] for error in restored.exceptions)
    assert str(restored) == str(failure)
    assert copy.copy(failure).exceptions == failure.exceptions
