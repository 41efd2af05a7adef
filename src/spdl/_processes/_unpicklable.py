"""Which of several objects cannot be pickled: an error that names the whole of them helps nobody."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["find_unpicklable"]


def find_unpicklable(
    parts: Iterable[tuple[str, Any]],
    dump: Callable[[Any], object] = pickle.dumps,
    *,
    ignored: tuple[type[BaseException], ...] = (),
) -> tuple[str, str] | None:
    """Find the first object that does not pickle.

    Args:
        parts: The objects, each after its name.
        dump: Pickles one as it will be sent.
        ignored: Exceptions that say nothing about the object.

    Returns:
        Its name, and why; ``None`` if all pickle.
    """
    for name, part in parts:
        try:
            dump(part)
        except KeyboardInterrupt:
            raise
        except ignored:
            continue
        except BaseException as exc:  # noqa: BLE001 - pickling runs the user's code, which may ask for an exit
            return name, f"it cannot be pickled: {exc} ({type(exc).__name__})"
    return None
