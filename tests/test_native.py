"""The tests of native code that need no Python, as one test: native/tests."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.tree

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "tests" / "spdl_tests"


def test_native_code_passes_its_own_tests() -> None:
    """They are built with the project where doctest is installed (``scripts/setup``)."""
    if not PROGRAM.exists():
        pytest.skip("native tests were not built: install doctest and build with -D SPDL_TESTS=ON")
    done = subprocess.run([PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
