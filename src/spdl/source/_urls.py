"""Addresses of shards, tables and folders: find the store of ``spdl.remote`` that has them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from spdl._addresses import Address, parse_address, redacted

if TYPE_CHECKING:
    from spdl.remote import RemoteStore

#: Limit for a question that need not be answered, in seconds.
_PATIENCE: Final = 10.0


def place_of(names: Iterable[str | os.PathLike[str]]) -> tuple[RemoteStore | None, list[Address]]:
    """The store that has all of these, without options, and their addresses. No store: they are local files.

    Raises:
        RemotePackageError: The package for it is not installed.
        ValueError: They are not all in one bucket, on one host, or local.
    """
    addresses = [parse_address(name) for name in names]
    roots = dict.fromkeys(address.root for address in addresses)
    if len(roots) > 1:
        raise ValueError(
            "all names must be in one bucket or on one host, got "
            + ", ".join(repr(redacted(root) or "local files") for root in roots)
        )
    root = next(iter(roots), "")
    if not root:
        return None, addresses
    exact: dict[str, str] = {}
    for place, (_, path, url, is_literal) in enumerate(addresses):
        if url is not None:
            number = 1
            while exact.get(path, url) != url:  # URLs that differ in their queries
                number += 1
                path = f"{addresses[place].path}?{number}"
            exact[path] = url
            addresses[place] = Address(root, path, url, is_literal)
    return store_at(root, exact), addresses


def store_at(root: str, exact: dict[str, str] | None = None) -> RemoteStore:
    """The store of a bucket or host, without options.

    Args:
        exact: Paths that are requested by a given URL.
    """
    from spdl.remote import RemoteObject

    store = RemoteObject._store_of(Address(root, ""))
    return store._with_exact(exact) if exact else store


def exists(root: str, path: str) -> bool:
    """Whether a store certainly has an object with this name. Asks once."""
    from spdl.remote import RemoteError, RemoteStore

    try:
        RemoteStore(root, attempts=1, timeout=_PATIENCE).head(path)
    except RemoteError:
        return False
    return True


def open_stream(address: Address) -> Any:
    """Open a file or object that is read from start to end.

    Raises:
        OSError: It is a local file and cannot be opened.
        spdl.remote.RemoteError: It is an object and cannot be read.
    """
    if not address.root:
        return open(address.path, "rb")  # the reader closes it
    from spdl.remote import RemoteObject

    return RemoteObject._at(address)._open_stream()
