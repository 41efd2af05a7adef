"""One Ray for the tests of this folder; skips them if it is not installed."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="package")
def ray() -> Iterator[Any]:
    module: Any = pytest.importorskip("ray")
    module.init(num_cpus=4, include_dashboard=False, logging_level="error", object_store_memory=200 << 20)
    yield module
    module.shutdown()
