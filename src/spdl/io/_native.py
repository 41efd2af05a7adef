"""Loads the built extension, on first use and nowhere else."""

from typing import TYPE_CHECKING, Any

from ._errors import NativeLibraryError

if TYPE_CHECKING:
    from .lib import _core
    from .lib._core import CPUBuffer as CPUBuffer

    core = _core

# Native classes that are public names of the package.
_PUBLIC = frozenset({"CPUBuffer"})


def _load_core() -> Any:
    try:
        from .lib import _core
    except ImportError as exc:
        raise NativeLibraryError(
            f"cannot load the native part of spdl.io: {exc}. In a source tree, build it with `pip install"
            " --no-build-isolation --editable .`; else reinstall spdl, and check that libjpeg-turbo is there.",
            action="load the native part",
        ) from exc
    return _core


def __getattr__(name: str) -> Any:
    """``core``, the extension; and the public classes in it. ``spdl.io`` borrows this function for the latter."""
    if name == "core":
        # Kept, so that later uses find it without coming here.
        return globals().setdefault("core", _load_core())
    if name in _PUBLIC:
        return getattr(_load_core(), name)
    raise AttributeError(f"module 'spdl.io' has no attribute {name!r}")
