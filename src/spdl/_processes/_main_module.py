"""What can be sent to a new process: nothing of a main module that it cannot import, nothing that does not pickle.

``multiprocessing`` makes every new process import the parent's main module from its file. A program read from stdin
also has a ``__file__``, ``<stdin>``, and a script may have been deleted: the process would die at its start. If the
module cannot be imported, nothing defined in it can be sent either, so the process is started without it.
"""

from __future__ import annotations

import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any


def can_import_main() -> bool:
    """False at a prompt, in a notebook, and for ``python -c`` and programs read from stdin."""
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:
        return True
    path = getattr(main, "__file__", None)
    return path is not None and os.path.exists(path)


def check_importable(obj: object) -> None:
    """Refuse a class or function of a main module that a new process cannot import.

    Args:
        obj: Any object that is being pickled, where ``can_import_main`` is false.

    Raises:
        pickle.PicklingError: It exists only in the main module.
    """
    if not isinstance(obj, type | types.FunctionType) or getattr(obj, "__module__", None) != "__main__":
        return
    raise pickle.PicklingError(
        f"{obj.__qualname__!r} is defined in an interactive main module (a prompt, a notebook, python -c, a program"
        " read from stdin), which a new process cannot import: move it to a module, that is a .py file, and"
        " import it from there"
    )


def guard_note(what: str) -> str:
    """Return the probable reason why a process died during its start.

    Args:
        what: What the main module would do on import: ``loads data``.
    """
    if not can_import_main():
        return "It died while it started; its message is on stderr"
    return (
        f"It died while it started; its message is on stderr. A main module that {what} when it is imported needs the"
        " guard `if __name__ == '__main__':`, because every new process imports it"
    )


@contextmanager
def without_lost_main() -> Iterator[None]:
    """If the main module cannot be imported, make ``multiprocessing`` start processes that do not import it.

    ``multiprocessing`` reads the module's ``__file__``. Use this context only while it does.
    """
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if path is None or can_import_main():
        yield
        return
    assert main is not None
    main.__file__ = None
    try:
        yield
    finally:
        main.__file__ = path


def find_unpicklable(
    parts: Iterable[tuple[str, Any]],
    dump: Callable[[Any], object] = pickle.dumps,
    *,
    ignored: tuple[type[BaseException], ...] = (),
) -> tuple[str, str] | None:
    """Find the first object that does not pickle.

    Args:
        parts: Pairs of name and object.
        dump: Pickles an object in the way it will be sent.
        ignored: Exceptions that say nothing about the object.

    Returns:
        Its name and the reason; ``None`` if all can be pickled.
    """
    for name, part in parts:
        try:
            dump(part)
        except KeyboardInterrupt:
            raise
        except ignored:
            continue
        except BaseException as exc:  # noqa: BLE001 - pickling runs user code, which may call sys.exit()
            return name, f"it cannot be pickled: {exc} ({type(exc).__name__})"
    return None
