"""Regions: executor descriptions, placement marks, and what makes a sequence of them valid."""

import copy
import pickle
import sys
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from spdl._errors import UnsupportedPythonError
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    ExecutorConfig,
    InterpreterPoolExecutorConfig,
    MainProcess,
    PathVariants,
    Pipe,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    StageConfig,
    check_regions,
)

EXECUTORS = [ExecutorConfig, ProcessPoolExecutorConfig, InterpreterPoolExecutorConfig]


def op(item: Any) -> Any:
    return item


def router(item: Any) -> int:
    return 0


def initialize(*args: object) -> None: ...


class LiveExecutor(Executor):
    """Starts nothing, but is an executor."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise NotImplementedError


class OwnExecutorConfig(ExecutorConfig):
    """Makes workers of another kind."""

    def _build(self, *args: Any, **kwargs: Any) -> Any:
        return args


class Undecided(ExecutorConfig):
    """Does not say how to make its workers."""


START = PlacementConfig(ProcessPoolExecutorConfig(2))
END = PlacementConfig(MAIN_PROCESS)
STAGE = Pipe(op)
ORDERED = Pipe(op, output_order="input")


def test_main_process_is_a_singleton_in_every_way() -> None:
    """However it is made or travels, it is the same object."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(MAIN_PROCESS, protocol)) is MAIN_PROCESS
    assert copy.copy(MAIN_PROCESS) is MAIN_PROCESS
    assert copy.deepcopy([MAIN_PROCESS])[0] is MAIN_PROCESS
    assert MainProcess() is MAIN_PROCESS
    assert repr(MAIN_PROCESS) == "MAIN_PROCESS"


@pytest.mark.parametrize("cls", EXECUTORS)
def test_executor_configs_are_equal_by_value(cls: type[ExecutorConfig]) -> None:
    """Two descriptions of the same workers are the same, also after pickling; kinds differ."""
    config = cls(3, initialize, (1, 2))
    assert config == cls(max_workers=3, initializer=initialize, initargs=(1, 2))
    assert config != cls(4, initialize, (1, 2))
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(cls(3, initialize, (1, 2)))
    assert [other(3, initialize, (1, 2)) == config for other in EXECUTORS].count(True) == 1


@pytest.mark.parametrize("cls", EXECUTORS)
def test_executor_config_needs_nothing(cls: type[ExecutorConfig]) -> None:
    """The number of workers is chosen for the machine."""
    config = cls()
    assert (config.max_workers, config.initializer, config.initargs) == (None, None, ())


@pytest.mark.parametrize("cls", EXECUTORS)
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"max_workers": 0}, ValueError, "max_workers must be >= 1, or None .*, got 0"),
        ({"max_workers": "2"}, TypeError, "max_workers must be an int"),
        ({"max_workers": True}, TypeError, "max_workers must be an int"),
        ({"initializer": 5}, TypeError, "initializer must be callable"),
    ],
)
def test_executor_config_refuses_bad_arguments(
    cls: Any, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    """What no pool could be made of is refused at once."""
    with pytest.raises(error, match=text):
        cls(**arguments)


def test_initargs_become_a_tuple() -> None:
    """A list would make the description change with it."""
    assert ExecutorConfig(initargs=[1, 2]).initargs == (1, 2)  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver", None])
def test_processes_can_be_started_in_three_ways(context: str | None) -> None:
    """Those of the standard library."""
    assert ProcessPoolExecutorConfig(mp_context=context).mp_context == context


@pytest.mark.parametrize("context", ["thread", "", 5])
def test_other_ways_to_start_a_process_are_refused(context: Any) -> None:
    """The message lists those that there are."""
    with pytest.raises(ValueError, match="mp_context must be one of fork, spawn, forkserver"):
        ProcessPoolExecutorConfig(mp_context=context)


def test_interpreters_have_no_start_method() -> None:
    """They are no processes."""
    with pytest.raises(TypeError, match="mp_context"):
        InterpreterPoolExecutorConfig(mp_context="spawn")  # type: ignore[call-arg]  # what is tested


def test_base_config_makes_no_workers() -> None:
    """The hook is for subclasses."""
    with pytest.raises(NotImplementedError, match="Undecided does not say how to make its workers"):
        Undecided()._build([])


@pytest.mark.parametrize(
    "target",
    [MAIN_PROCESS, ProcessPoolExecutorConfig(), InterpreterPoolExecutorConfig(), OwnExecutorConfig()],
    ids=repr,
)
def test_mark_accepts_descriptions_of_workers(target: Any) -> None:
    """Interpreters too, on any Python; and other workers, if their description says how to make them."""
    mark = PlacementConfig(target)
    assert (mark.target, mark.name, mark.buffer_size) == (target, "placement", 1)
    assert pickle.loads(pickle.dumps(mark)) == mark


def test_mark_refuses_a_live_executor() -> None:
    """It could not be sent to where it is needed; the message says what to do."""
    with pytest.raises(TypeError, match=r"not a live Executor.*pipe\(executor=\.\.\.\)"):
        PlacementConfig(LiveExecutor())  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize(
    "target", [None, 5, "MAIN_PROCESS", ProcessPoolExecutorConfig, ExecutorConfig(), Undecided()], ids=repr
)
def test_mark_refuses_other_targets(target: Any) -> None:
    """The base class makes no workers either."""
    with pytest.raises(TypeError, match="target must be a ProcessPoolExecutorConfig"):
        PlacementConfig(target)


@pytest.mark.parametrize("size", [0, -1, 1.5, "2", True, None])
def test_mark_refuses_a_transfer_without_items(size: Any) -> None:
    """Whatever is wrong with it, it is a ValueError."""
    with pytest.raises(ValueError, match="buffer_size must be"):
        PlacementConfig(MAIN_PROCESS, buffer_size=size)


@pytest.mark.parametrize(
    "stages",
    [
        [],
        [STAGE, ORDERED],
        [START, STAGE, END],
        [STAGE, START, STAGE, STAGE, END, ORDERED],
        [START, STAGE, START, STAGE, END],
        [START, STAGE, END, START, STAGE, END],
        [START, PathVariants(router, [[STAGE]]), END],
        [END, STAGE],
        [PlacementConfig(OwnExecutorConfig()), STAGE, END],
    ],
)
def test_valid_regions_pass(stages: Any) -> None:
    """Regions have stages, may be adjacent, and end before the sink."""
    check_regions(stages, may_stay_open=False)
    check_regions(stages, may_stay_open=True)


@pytest.mark.parametrize("stages", [[START], [START, END], [START, START, STAGE, END], [STAGE, START, END, STAGE]])
def test_region_without_stages_is_refused(stages: Any) -> None:
    """It would move items there and back for nothing."""
    with pytest.raises(ValueError, match="has no stages"):
        check_regions(stages, may_stay_open=True)


@pytest.mark.parametrize("stages", [[START], [START, STAGE], [START, STAGE, END, START, STAGE]])
def test_region_open_at_the_sink_is_refused(stages: Any) -> None:
    """The sink is where the pipeline was built."""
    with pytest.raises(ValueError, match=r"must be closed with \.to\(MAIN_PROCESS\)"):
        check_regions(stages, may_stay_open=False)


def test_hand_made_region_may_stay_open() -> None:
    """It then ends at the sink."""
    check_regions([START, STAGE], may_stay_open=True)


@pytest.mark.parametrize(
    "stage",
    [
        ORDERED,
        PathVariants(router, [[STAGE], [STAGE, ORDERED]]),
        PathVariants(router, [[PathVariants(router, [[ORDERED]])]]),
    ],
)
def test_ordered_stage_in_a_region_is_refused(stage: StageConfig) -> None:
    """Independent workers cannot keep an order, in path variants neither."""
    with pytest.raises(ValueError, match=r"stage 'op' with output_order='input'"):
        check_regions([START, STAGE, stage, END], may_stay_open=False)
    check_regions([START, STAGE, END, stage], may_stay_open=False)


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 13, 9)])
def test_interpreter_region_needs_a_newer_python(monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...]) -> None:
    """The error names the Python that is needed."""
    monkeypatch.setattr(sys, "version_info", version)
    stages: list[StageConfig] = [PlacementConfig(InterpreterPoolExecutorConfig()), STAGE, END]
    with pytest.raises(UnsupportedPythonError, match=r"requires Python 3\.14"):
        check_regions(stages, may_stay_open=False)


def test_interpreter_region_is_refused_on_a_new_python_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason, and with what to use."""
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    stages: list[StageConfig] = [PlacementConfig(InterpreterPoolExecutorConfig()), STAGE, END]
    with pytest.raises(UnsupportedPythonError, match=r"no daemon threads.* Use ProcessPoolExecutorConfig"):
        check_regions(stages, may_stay_open=False)
