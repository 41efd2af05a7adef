"""Servers that answer late, slowly, partly or not at all: each object arrives whole and once, or its error is typed."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from spdl.remote import (
    Located,
    RemoteChangedError,
    RemoteError,
    RemoteStore,
    RemoteThrottledError,
    RemoteTimeoutError,
    RemoteUnavailableError,
)
from spdl.remote._requests import Attempts
from tests.support.object_server import Fault, FaultProxy, ObjectServer, Request, etag_of

from .conftest import S3_OPTIONS

Start = Callable[[Callable[[Request, int], Fault | None]], FaultProxy]


def _store(proxy: FaultProxy, *, seconds_each: float = 30.0, **arguments: Any) -> RemoteStore:
    """A store that does not wait long between attempts."""
    store = RemoteStore("s3://bucket/", options=S3_OPTIONS | {"endpoint": proxy.url}, **arguments)
    requests = store._requests
    requests.attempts = replace(requests.attempts, pause=0.001, seconds_each=seconds_each)
    return store


@pytest.mark.parametrize("kind", ["reset", "truncate", "refuse", "trickle", "late", "stall"])
def test_object_arrives_whole_after_a_fault(kind: str, server: ObjectServer, faulty: Start) -> None:
    """One spoilt answer costs another request and nothing else."""
    data = server.objects["bucket/x"] = os.urandom(300_000)
    proxy = faulty(lambda request, number: Fault(kind) if number == 0 else None)
    store = _store(proxy, seconds_each=0.25 if kind == "stall" else 30.0)
    assert store.get("x") == data
    assert proxy.faults == [kind]
    assert store.get_range("x", 100_000, 1000) == data[100_000:101_000]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("reset", RemoteUnavailableError),
        ("truncate", RemoteUnavailableError),
        ("refuse", RemoteThrottledError),
        ("stall", RemoteTimeoutError),
    ],
)
def test_fault_that_stays_is_a_typed_error(
    kind: str, error: type[Exception], server: ObjectServer, faulty: Start
) -> None:
    """After the stated number of attempts; the message has it."""
    server.objects["bucket/x"] = bytes(300_000)
    proxy = faulty(lambda request, number: Fault(kind))
    store = _store(proxy, attempts=3, seconds_each=0.1 if kind == "stall" else 30.0)
    with pytest.raises(error, match=r"s3://bucket/x.*after 3 attempts") as caught:
        store.get("x")
    assert isinstance(caught.value, RemoteError)
    assert caught.value.num_attempts == 3
    # On a busy machine, the time may be over before the proxy has read the request.
    assert proxy.faults == [kind] * (len(proxy.faults) if kind == "stall" else 3)
    assert len(proxy.faults) <= 3


def test_another_etag_is_a_typed_error(server: ObjectServer, faulty: Start) -> None:
    """A server that ignores conditions is found out, and bytes of two versions are never mixed."""
    server.objects["bucket/x"] = b"abc"
    proxy = faulty(lambda request, number: Fault("change"))
    with pytest.raises(RemoteChangedError, match="changed-"):
        _store(proxy).read(Located("x", 0, 2, etag_of(b"abc")))


def test_server_error_is_tried_again_and_a_refusal_is_not(server: ObjectServer, faulty: Start) -> None:
    """Only what may pass is worth another request."""
    server.objects["bucket/x"] = b"abc"
    for status, count in ((500, 2), (502, 2), (429, 2), (403, 1), (400, 1), (404, 1)):
        proxy = faulty(lambda request, number, status=status: Fault("refuse", status))  # type: ignore[misc]
        with pytest.raises(RemoteError):
            _store(proxy, attempts=2).get("x")
        assert len(proxy.faults) == count, status


def test_listing_and_writing_are_tried_again(server: ObjectServer, faulty: Start) -> None:
    """As reading is."""
    proxy = faulty(lambda request, number: Fault("refuse") if number == 0 else None)
    store = _store(proxy)
    store.put("x", b"abc")
    assert server.objects == {"bucket/x": b"abc"}
    assert [info.path for info in store.list()] == ["x"]
    assert len(proxy.faults) == 2


@pytest.mark.slow
def test_many_readers_get_every_object_once_through_all_faults(server: ObjectServer, faulty: Start) -> None:
    """Half of all answers are spoilt, in turns of all kinds."""
    kinds = ["reset", "truncate", "refuse", "late", "trickle", "stall"]
    contents = {f"{index}": os.urandom(1000 + 997 * index) for index in range(60)}
    server.objects = {f"bucket/{path}": data for path, data in contents.items()}

    def plan(request: Request, number: int) -> Fault | None:
        index = int(request.path.rpartition("/")[2])
        return Fault(kinds[(index // 2 + number) % len(kinds)]) if (index + number) % 2 == 0 else None

    store = _store(faulty(plan), seconds_each=0.5)
    with ThreadPoolExecutor(8) as pool:
        assert dict(zip(contents, pool.map(store.get, contents), strict=True)) == contents


class _Clock:
    """Time that passes only in requests and pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def _attempts(clock: _Clock, **arguments: Any) -> Attempts:
    return Attempts(clock=lambda: clock.now, sleep=clock.sleep, **arguments)


def test_deadline_is_for_all_attempts_together() -> None:
    """No attempt gets more than what is left, and none begins after it."""
    clock = _Clock()
    limits: list[float] = []

    def request(limit: float) -> None:
        limits.append(limit)
        clock.now += limit
        raise RemoteUnavailableError("no", url="s3://b/x", action="read")

    with pytest.raises(RemoteTimeoutError, match=r"no \(after 100 s and 4 attempts\)") as caught:
        _attempts(clock, most=100, seconds=100.0, seconds_each=30.0, pause=0.5).run(request)
    assert clock.now <= 100.0
    assert limits[:3] == [30.0, 30.0, 30.0]
    assert limits[3] < 10.0
    assert (caught.value.url, caught.value.num_attempts) == ("s3://b/x", 4)


def test_pauses_grow_and_differ() -> None:
    """Up to a limit, so that readers that failed together do not return together."""
    clock = _Clock()

    def request(limit: float) -> None:
        raise RemoteThrottledError("slow down")

    with pytest.raises(RemoteThrottledError):
        _attempts(clock, most=200, seconds=1e6, pause=1.0, longest_pause=8.0).run(request)
    assert len(clock.pauses) == 199
    assert all(pause <= min(2.0**number, 8.0) for number, pause in enumerate(clock.pauses))
    assert max(clock.pauses) > 4.0
    assert len(set(clock.pauses)) == 199


def test_failure_for_good_is_raised_at_once() -> None:
    """With its own class and no pause."""
    clock = _Clock()

    def request(limit: float) -> None:
        raise RemoteChangedError("changed")

    with pytest.raises(RemoteChangedError, match=r"^changed$"):
        _attempts(clock).run(request)
    assert clock.pauses == []
