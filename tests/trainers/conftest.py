"""What the tests of all trainers share: packages that may be missing, and what the packages change in the process."""

import gc
import multiprocessing
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from .killed import OFFLINE, PACKAGES, serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@pytest.fixture(autouse=True)
def _process_left_as_it_was() -> Iterator[None]:
    """Trainers seed the global generators and set environment variables: both are put back."""
    before, state = dict(os.environ), random.getstate()
    yield
    random.setstate(state)
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(params=["DataLoader", "thread", "auto", "prefetched"])
def make_loader(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes one of our loaders over as many samples as it is told."""
    return _loader(request.param)


@pytest.fixture(params=["DataLoader", "thread"])
def endless_loader(request: pytest.FixtureRequest) -> Any:
    """One without a length and without an end."""
    return _imported("loading", "torch").ENDLESS[request.param]()


@pytest.fixture
def damaged_loader() -> Any:
    """One whose dataset raises an ``OSError`` for the second sample of its fourth batch."""
    return _imported("loading", "torch").of_damaged_samples()


@pytest.fixture
def make_thread_loader() -> Callable[..., Any]:
    """The one with the parts of torch's loader: dataset, sampler, batch sampler."""
    return _loader("thread")


@pytest.fixture
def make_process_loader() -> Callable[..., Any]:
    """One with worker processes that outlive an epoch. Apart, since they take a while to start."""
    return _loader("process")


@pytest.fixture(scope="module", params=sorted(PACKAGES))
def asked(request: pytest.FixtureRequest) -> Iterator["Connection"]:
    """The connection to a process of each trainer that runs what it is asked for (``killed.serve``)."""
    _require(*PACKAGES[request.param])
    context = multiprocessing.get_context("forkserver")  # has imported torch already
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, request.param))
    with ours:
        process.start()
        theirs.close()
        assert ours.recv() == 0
        yield ours
        ours.send(None)
        process.join()


@pytest.fixture(scope="session")
def in_lightning() -> ModuleType:
    """``tests.trainers.in_lightning``: what needs Lightning."""
    return _imported("in_lightning", *PACKAGES["lightning"])


@pytest.fixture(scope="session")
def in_transformers() -> ModuleType:
    """``tests.trainers.in_transformers``: what needs Hugging Face's ``Trainer``."""
    return _imported("in_transformers", *PACKAGES["transformers"])


@pytest.fixture(scope="session")
def in_accelerate() -> ModuleType:
    """``tests.trainers.in_accelerate``: what needs Accelerate."""
    return _imported("in_accelerate", *PACKAGES["accelerate"])


def _loader(kind: str) -> Callable[..., Any]:
    made: Callable[..., Any] = _imported("loading", "torch").LOADERS[kind]
    return made


def _imported(name: str, *packages: str) -> ModuleType:
    """Import the module when a test first wants it: collecting the tests must not take the seconds that this takes."""
    _require(*packages)
    name = f"tests.trainers.{name}"
    is_new = name not in sys.modules
    with _offline(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these packages and those that they import do on import is theirs
        module = import_module(name)
    if is_new:
        # As at the end of the collection: the leak checks of all tests after it would take longer.
        gc.collect()
        gc.freeze()
    return module


def _require(*packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install spdl-native[trainers])")


@contextmanager
def _offline() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(OFFLINE)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
