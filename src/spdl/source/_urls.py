"""URLs of shards and folders: find the store of ``spdl.remote`` that has them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spdl.remote import RemoteStore

__all__ = ["is_url", "open_object", "open_stream", "store_of"]

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: Bytes per request for objects that are read from start to end.
_READ_AHEAD: Final = 8 << 20


def is_url(name: str) -> bool:
    """Whether ``name`` is a URL rather than a local path.

    Raises:
        ValueError: ``name`` is a command, as WebDataset accepts.
    """
    if name.startswith("pipe:"):
        raise ValueError(
            f"commands are not run, got {name!r}: give the URL itself (s3://, gs://, az://, https://), or open_shard="
        )
    return _URL.match(name) is not None


def store_of(urls: Sequence[str]) -> tuple[RemoteStore, list[str]]:
    """The store that has all objects at these URLs, without options, and their paths in it.

    Raises:
        RemotePackageError: The package for it is not installed.
        ValueError: The objects are not all in one bucket or on one host.
    """
    from spdl.remote import RemoteStore

    places = [_divided(url) if is_url(url) else ("", url) for url in urls]
    roots = dict.fromkeys(root for root, _ in places)
    if len(roots) != 1:
        raise ValueError(
            "all names must be in one bucket or on one host, got "
            + ", ".join(repr(root or "local files") for root in roots)
        )
    return RemoteStore(next(iter(roots))), [path for _, path in places]


def open_object(url: str) -> Any:
    """Open an object as a seekable file that is read by ranges.

    Raises:
        spdl.remote.RemoteError: The object cannot be read.
    """
    from spdl.remote import RemoteObject

    at = RemoteObject.of(url)
    return at.store.open(at.path)


def open_stream(url: str) -> Any:
    """Open an object as a file that is read from start to end.

    Raises:
        spdl.remote.RemoteError: The object cannot be read.
    """
    from spdl.remote import RemoteObject

    at = RemoteObject.of(url)
    return io.BufferedReader(at.store.open(at.path).detach(), _READ_AHEAD)


def _divided(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}/", path
