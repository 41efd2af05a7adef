"""What the tests of all trainers share: packages that may be missing, and what the packages change in the process."""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

#: No trainer has a reason to ask the network for anything here.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_DATASETS_OFFLINE": "1"}


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
    """One whose data set raises an ``OSError`` for the second sample of its fourth batch."""
    return _imported("loading", "torch").of_damaged_samples()


@pytest.fixture
def make_thread_loader() -> Callable[..., Any]:
    """The one with the parts of torch's loader: data set, sampler, batch sampler."""
    return _loader("thread")


@pytest.fixture
def make_process_loader() -> Callable[..., Any]:
    """One with worker processes that outlive an epoch. Apart, since they take a while to start."""
    return _loader("process")


@pytest.fixture
def loaders() -> dict[str, Callable[..., Any]]:
    """All kinds of loaders of ours, by name."""
    found: dict[str, Callable[..., Any]] = _imported("loading", "torch").LOADERS
    return found


@pytest.fixture(scope="session")
def in_lightning() -> ModuleType:
    """``tests.trainers.in_lightning``: what needs Lightning."""
    return _imported("in_lightning", "torch", "lightning")


@pytest.fixture(scope="session")
def in_transformers() -> ModuleType:
    """``tests.trainers.in_transformers``: what needs Hugging Face's ``Trainer``."""
    return _imported("in_transformers", "torch", "transformers", "accelerate")


@pytest.fixture(scope="session")
def in_accelerate() -> ModuleType:
    """``tests.trainers.in_accelerate``: what needs Accelerate."""
    return _imported("in_accelerate", "torch", "accelerate")


def _loader(kind: str) -> Callable[..., Any]:
    made: Callable[..., Any] = _imported("loading", "torch").LOADERS[kind]
    return made


def _imported(name: str, *packages: str) -> ModuleType:
    """Import the module when a test first wants it: collecting the tests must not take the seconds that this takes."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install spdl-native[trainers])")
    with _offline(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these packages and those that they import do on import is theirs
        return import_module(f"tests.trainers.{name}")


@contextmanager
def _offline() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(_OFFLINE)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
