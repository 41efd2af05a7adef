"""The tests of native code that need no Python, as one test (native/tests), and what its bindings may use."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.tree

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "tests" / "spdl_tests"


def test_native_code_passes_its_own_tests() -> None:
    """They are built with the project where doctest is installed (``scripts/setup``)."""
    if not PROGRAM.exists():
        pytest.skip("native tests were not built: install doctest and build with -D SPDL_TESTS=ON")
    done = subprocess.run([PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


def test_bindings_keep_to_the_stable_abi() -> None:
    """Which has no macros that read objects, as in ``PyTuple_GET_SIZE``: a wheel for 3.12 and later is built with it.

    CI builds for one Python, which may be an earlier one.
    """
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(ROOT.glob("native/bind/*.*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\bPy[A-Z][A-Za-z]*_([A-Z]+_)*[A-Z]+\(", line)
    ]
    assert found == []
