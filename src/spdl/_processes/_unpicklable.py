"""Finds which of several objects cannot be pickled, for useful error messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any


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
