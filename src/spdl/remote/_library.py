"""Loads obstore in a form that is usable in this process.

Its native code starts threads (a tokio runtime, one for all stores) and keeps them in a static variable. A forked child
has the variable but not the threads, so every request would wait forever there. A child therefore loads a private copy
of the native module, with its own static variables. Children that are spawned, or forked before the first use, are not
affected.
"""

import importlib.machinery
import importlib.util
import os
import shutil
import tempfile
from contextlib import suppress
from typing import Any

from ._errors import RemotePackageError

# Modules by the process that loaded them. A parent's modules stay: freeing their stores could need their threads.
_LOADED: dict[int, Any] = {}


def load_obstore(url: str) -> Any:
    """The native module of obstore, usable in this process.

    Raises:
        RemotePackageError: obstore is not installed.
    """
    pid = os.getpid()
    module = _LOADED.get(pid)
    if module is None:
        original = import_obstore(url)
        # Two threads may come here at once; both modules work.
        module = _LOADED.setdefault(pid, _copy_of(original) if _LOADED else original)
    return module


def import_obstore(url: str) -> Any:
    """The native module of obstore, which may be unusable in a forked process.

    Raises:
        RemotePackageError: obstore is not installed.
    """
    try:
        import obstore._obstore as original  # type: ignore[import-not-found, unused-ignore]  # an extra
    except ImportError as exc:
        raise RemotePackageError(
            f"cannot open {url!r}: obstore is not installed ({exc}); install it with:"
            " pip install 'spdl-native[remote]'",
            url=url,
            action="open",
        ) from exc
    return original


def _copy_of(original: Any) -> Any:
    """Load the native module again, from a copy of its file: for the same file, the loader would return the old one."""
    descriptor, path = tempfile.mkstemp(suffix=".so", prefix="spdl-obstore-")
    os.close(descriptor)
    try:
        shutil.copyfile(original.__file__, path)
        loader = importlib.machinery.ExtensionFileLoader(original.__name__, path)
        spec = importlib.util.spec_from_file_location(original.__name__, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    finally:
        with suppress(OSError):
            os.unlink(path)
    return module
