"""Imported by every interpreter of a coverage run before its program: starts measuring, and keeps the results.

``measure_coverage.py`` copies this file into the environment that it makes. ``os._exit``, by which processes of
``multiprocessing`` end, runs no exit handlers: neither those that write what was measured of native code.
"""

import os
import sys

import coverage

_FOLDER = os.environ.get("SPDL_COVERED", "")
_exit_at_once = os._exit


def _write_native_counts() -> None:
    """Add the counts of the loaded extensions to their files, as the end of a process does."""
    extensions = [
        path
        for module in list(sys.modules.values())
        if (path := getattr(module, "__file__", None)) and path.startswith(_FOLDER) and path.endswith(".so")
    ]
    if extensions:
        import ctypes

        for path in extensions:
            # Holding the GIL, so that no other Python thread ends the process in between.
            ctypes.PyDLL(path).__gcov_dump()


def _exit(status: int) -> None:
    try:
        _write_native_counts()
    finally:
        _exit_at_once(status)


if _FOLDER:
    os._exit = _exit
    coverage.process_startup()
