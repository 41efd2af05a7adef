"""Each test of media counts its own failures, as if it were a process of its own."""

from collections.abc import Iterator

import pytest

from spdl.io._images import _outcomes


@pytest.fixture(autouse=True)
def _failures_begin_at_none() -> Iterator[None]:
    _outcomes._SEEN.clear()
    yield
    _outcomes._SEEN.clear()
