"""A server of objects, stores before it, and obstore's threads."""

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdl.remote import RemoteStore
from tests.support.object_server import Fault, FaultProxy, ObjectServer, Request, serve, serve_faults, warm_up

# Where obstore is not installed, none of these tests can run.
collect_ignore_glob = [] if importlib.util.find_spec("obstore") else ["test_*.py"]

#: For obstore, instead of what it looks for on the machine.
S3_OPTIONS = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}


@pytest.fixture(scope="session", autouse=True)
def _runtime() -> None:
    warm_up()


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    """A server without objects."""
    with serve() as running:
        yield running


@pytest.fixture
def s3(server: ObjectServer) -> Callable[..., RemoteStore]:
    """Makes stores of a bucket of the server."""

    def make(url: str = "s3://bucket/", **arguments: Any) -> RemoteStore:
        return RemoteStore(url, options=S3_OPTIONS | {"endpoint": server.url}, **arguments)

    return make


@pytest.fixture
def faulty(server: ObjectServer) -> Iterator[Callable[[Callable[[Request, int], Fault | None]], FaultProxy]]:
    """Starts proxies before the server."""
    running = []

    def start(plan: Callable[[Request, int], Fault | None]) -> FaultProxy:
        context = serve_faults(server, plan)
        running.append(context)
        return context.__enter__()

    yield start
    for context in running:
        context.__exit__(None, None, None)
