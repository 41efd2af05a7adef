"""Actors that are not ready in time. Without Ray: a stub says what the cluster has."""

import logging
import socket
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from spdl._processes._transport._connecting import link_pair
from spdl.pipeline._engine._region._workers import Died, Failed
from spdl.ray._messages import Place
from spdl.ray._workers import RayWorkers, _Heard, _Port
from tests.support.timeouts import TIMEOUT


class ActorDied(Exception):
    """Stands for Ray's."""


def make_workers(
    monkeypatch: pytest.MonkeyPatch, num_ready: int = 0, place: Place | None = None, restart: bool = False
) -> RayWorkers:
    """Return two workers whose time to start is over, of which so many are ready."""
    cluster = SimpleNamespace(
        cluster_resources=lambda: {"CPU": 8.0, "memory": 5e9},
        available_resources=lambda: {"CPU": 1.5, "memory": 4e9},
        exceptions=SimpleNamespace(RayActorError=ActorDied, ObjectLostError=ActorDied),
    )
    monkeypatch.setattr("spdl.ray._workers.import_ray", lambda: cluster)
    spec: Any = SimpleNamespace(stage="0:1:region")
    workers = RayWorkers(
        spec, 2, {"num_cpus": 4, "resources": {"decoder": 1}}, restart=restart, start_timeout=1.5, address=None
    )
    for index in range(2):
        port = _Port(None, index, 0, workers._heard)
        port.is_ready = index < num_ready
        port.place = place
        if not port.is_ready:
            port.deadline = 0.0
        workers._ports.append(port)
    return workers


def test_actors_that_never_start_fail_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names them, what they reserve, and what the cluster has free."""
    (event,) = make_workers(monkeypatch).wait()
    assert isinstance(event, Failed)
    text = str(event.error)
    assert text.startswith("actor 0 and actor 1 of 0:1:region not ready 1.5 s after the start")
    assert "each reserves {'CPU': 4, 'decoder': 1.0}" in text or "each reserves {'CPU': 4, 'decoder': 1}" in text
    assert "CPU 1.5 of 8, decoder 0 of 0, memory 4e+09 of 5e+09" in text
    assert "start_timeout" in text


def test_actors_that_are_ready_go_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A warning tells of the others, once."""
    workers = make_workers(monkeypatch, num_ready=1)
    with caplog.at_level(logging.WARNING, "spdl.pipeline"):
        assert workers.wait() == []
        workers.wake()
        assert workers.wait() == []
    (record,) = caplog.records
    assert "actor 1 of 0:1:region not ready" in record.getMessage()
    assert "The other actors go on" in record.getMessage()


def test_a_lost_actor_is_not_one_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its replacement may be the one that does not start."""
    workers = make_workers(monkeypatch, num_ready=1)
    workers._ports[0].is_lost = True
    (event,) = workers.wait()
    assert isinstance(event, Failed)


def test_an_initializer_that_does_not_return_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """From an actor for which there is no room; the error says where it runs."""
    (event,) = make_workers(monkeypatch, place=Place("node-7", 4711)).wait()
    assert isinstance(event, Failed)
    assert "actor 0 (pid 4711 on node-7)" in str(event.error)
    assert "the initializer has not returned" in str(event.error)


@pytest.mark.parametrize(("num_ready", "restart"), [(0, False), (2, False), (0, True), (2, True)])
def test_deaths_are_told(monkeypatch: pytest.MonkeyPatch, num_ready: int, restart: bool) -> None:
    """Also of an actor that was not ready; the region knows whether it can do without it."""
    workers = make_workers(monkeypatch, num_ready, restart=restart)
    for port in workers._ports:
        port.deadline = inf
    workers._heard.put(_Heard(0, 0, ActorDied("killed")))
    (event,) = workers.wait()
    assert isinstance(event, Died)
    assert event.worker == 0


def test_an_actor_on_this_node_is_known_when_it_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reports come sooner than what Ray tells of it, and errors in them say where it runs."""
    workers = make_workers(monkeypatch)
    link, end = link_pair(has_rings=True)
    workers._admit(1, 0, 4711, link)
    end.close()
    port = workers._ports[1]
    assert port.link_listener is not None
    port.link_listener.join(TIMEOUT)
    port.close()
    assert workers.describe(1) == f"actor 1 (pid 4711 on {socket.gethostname()})"
