"""The environment variables of the training process, as its other processes have them."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from spdl._processes._child import Child
from spdl._processes._environment import Environment, Renewed, change_environment
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.processes import bodies
from tests.processes.bodies import TIMEOUT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX")

METHODS = ["forkserver", "fork", "spawn"]


def _tell(child: Child, expression: str) -> object:
    child.link.send(6, 0, expression)
    return child.recv(TIMEOUT).load()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*can deadlock:RuntimeWarning", "ignore:.*use of fork:DeprecationWarning")
def test_a_child_begins_with_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """By any start method: what was set, changed and deleted since the fork server was started."""
    for turn in range(2):
        for method in METHODS:
            monkeypatch.setenv("SPDL_TEST_TOKEN", f"{method} {turn}")
            if turn:
                monkeypatch.delenv("SPDL_TEST_FIRST", raising=False)
            else:
                monkeypatch.setenv("SPDL_TEST_FIRST", "1")
            child = Child.start(bodies.answer, name="spdl-test", what="a test", mp_context=method)
            try:
                there = _tell(child, "dict(os.environ)")
                assert isinstance(there, dict)
                assert there.items() >= dict(os.environ).items()
                assert there["SPDL_TEST_TOKEN"] == f"{method} {turn}"
                assert there.get("SPDL_TEST_FIRST") == (None if turn else "1")
            finally:
                child.stop()


def test_a_kept_worker_has_the_environment_of_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changed before it began, nothing else: a variable that the worker has set for itself remains."""
    monkeypatch.delenv("SPDL_TEST_TOKEN", raising=False)
    tokens = iterate_in_subprocess(bodies.Tokens, timeout=TIMEOUT)
    assert list(tokens) == [(None, "mine")]
    for token in ("1", "2"):
        monkeypatch.setenv("SPDL_TEST_TOKEN", token)
        assert list(tokens) == [(token, "mine")]
        assert list(tokens) == [(token, "mine")]
    monkeypatch.delenv("SPDL_TEST_TOKEN")
    assert list(tokens) == [(None, "mine")]


def test_changes_are_those_since_the_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a dictionary to which they are applied."""
    environment, copy = Environment(), dict(os.environ)
    steps: list[dict[str, str | None]] = [{}, {"SPDL_A": "1", "SPDL_B": "é"}, {}, {"SPDL_A": None}, {"SPDL_B": "2"}]
    for step in steps:
        for name, value in step.items():
            if value is None:
                monkeypatch.delenv(name)
            else:
                monkeypatch.setenv(name, value)
        changes = environment.changes()
        assert changes == step
        for name, value in changes.items():
            if value is None:
                del copy[name]
            else:
                copy[name] = value
        assert copy == dict(os.environ)


def test_renewed_variables_stay_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that have their first value again: a template may have another one."""
    renewed = Renewed()
    renewed.begin(dict(os.environ))
    assert renewed.changes() == {}
    monkeypatch.setenv("SPDL_A", "1")
    assert renewed.changes() == {"SPDL_A": "1"}
    monkeypatch.delenv("SPDL_A")
    assert renewed.changes() == {"SPDL_A": None}
    change_environment({"SPDL_A": "2", "SPDL_B": None})
    assert os.environ.pop("SPDL_A") == "2"


@pytest.mark.slow
def test_persistent_workers_of_a_loader_have_the_environment_of_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that are started for each epoch, from the template."""
    from spdl.dataloader import get_pytorch_dataloader

    for persistent in (True, False):
        loader = get_pytorch_dataloader(
            bodies.TokenDataset(),
            batch_size=None,
            num_workers=2,
            workers="process",
            persistent_workers=persistent,
        )
        for token in ("1", "2", None):
            if token is None:
                monkeypatch.delenv("SPDL_TEST_TOKEN")
            else:
                monkeypatch.setenv("SPDL_TEST_TOKEN", token)
            assert list(loader) == [token] * 4
        del loader


def _pipeline(place: str) -> PipelineBuilder[Any, Any]:
    builder: PipelineBuilder[Any, Any] = PipelineBuilder().add_source(bodies.Renewing())
    if place == "region":
        builder = builder.to(ProcessPoolExecutorConfig(2)).pipe(bodies.with_token).to(MAIN_PROCESS)
    else:
        builder = builder.pipe(bodies.with_token, isolate=True)
    return builder.add_sink(1)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["region", "isolated"])
def test_workers_of_a_pipeline_have_the_environment_of_each_item(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least as new as the item: the source changes it."""
    monkeypatch.setenv("SPDL_TEST_TOKEN", "0")
    pipeline = _pipeline(place).build(num_threads=1)
    with pipeline.auto_stop():
        taken = sorted(pipeline)
    assert [number for number, _ in taken] == list(range(1, 9))
    assert all(token >= number for number, token in taken), taken


@pytest.mark.slow
def test_workers_of_a_moved_pool_have_the_environment_of_each_call() -> None:
    """The pipeline in the subprocess changes it."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool:
        builder: PipelineBuilder[Any, Any] = PipelineBuilder().add_source(bodies.Renewing())
        config = builder.pipe(bodies.with_token, executor=pool).add_sink(1).get_config()
        taken = sorted(run_pipeline_in_subprocess(config, num_threads=1, timeout=TIMEOUT))
    assert [number for number, _ in taken] == list(range(1, 9))
    assert all(token >= number for number, token in taken), taken
