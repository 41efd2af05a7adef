"""What importing the package does, and what it does not."""

import os
import subprocess
import sys

import spdl.io


def run(code: str) -> str:
    """Output of a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_all_names_are_sorted_and_exist() -> None:
    """``from spdl.io import *`` works."""
    assert sorted(spdl.io.__all__) == spdl.io.__all__
    assert all(hasattr(spdl.io, name) for name in spdl.io.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    assert not hasattr(spdl.io, "load_hologram")


def test_import_loads_nothing_native_and_no_arrays() -> None:
    """Neither the extension nor NumPy nor torch; the first native name loads the extension."""
    code = (
        "import sys, spdl.io\n"
        "print([name for name in ('numpy', 'torch', 'spdl.io.lib._core', 'spdl.pipeline') if name in sys.modules])\n"
        "spdl.io.CPUBuffer\n"
        "print('spdl.io.lib._core' in sys.modules)"
    )
    assert run(code).split("\n")[:2] == ["[]", "True"]


def test_missing_native_part_is_an_error_of_its_use() -> None:
    """The import succeeds; what needs the extension says what is wrong and what to do."""
    code = (
        "import sys; sys.modules['spdl.io.lib._core'] = None\n"
        "import spdl.io\n"
        "for use in (lambda: spdl.io.CPUBuffer, lambda: spdl.io.load_image_batch(['a'], width=1, height=1)):\n"
        "    try: use()\n"
        "    except spdl.io.NativeLibraryError as error: print(error)\n"
    )
    lines = run(code).splitlines()
    assert len(lines) == 2
    assert all("cannot load the native part of spdl.io" in line and "pip install" in line for line in lines)


def test_exit_with_a_live_batch_leaks_nothing() -> None:
    """Batches, views and failures in globals are gone when the extension counts what is left."""
    code = (
        "import io, spdl.io\n"
        "from PIL import Image\n"
        "stream = io.BytesIO(); Image.new('L', (8, 8)).save(stream, 'JPEG')\n"
        "try: spdl.io.load_image_batch([b'junk'], width=8, height=8)\n"
        "except spdl.io.BatchLoadError as error: kept = error\n"
        "buffer = spdl.io.load_image_batch([stream.getvalue(), b'junk'], width=8, height=8, strict=False)\n"
        "array, view = spdl.io.to_numpy(buffer), memoryview(buffer)\n"
        "print('done')"
    )
    environ = {**os.environ, "SPDL_REPORT_LEAKS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout == "done\n"
    assert "nanobind" not in done.stderr
