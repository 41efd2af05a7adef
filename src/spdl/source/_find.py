"""Find the files that addresses stand for: a name, a folder, or a pattern with braces and wildcards.

A name is tried literally before it is expanded, and so is the beginning of a pattern. A path object is never expanded.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from spdl._addresses import Address, parse_address, redacted, url_of

from ._braces import expand_braces
from ._stores import LocalFiles, RangeStore, StoredFile, StoreFolders, as_stored
from ._urls import exists, store_at

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The files of a folder of shards.
SHARDS: Final = ("*.tar",)
_WILDCARD: Final = re.compile(r"[*?\[]")
_SPECIAL: Final = re.compile(r"[*?\[{]")


def as_pattern(name: str | os.PathLike[str]) -> Address:
    """The address of a name in a store that the user gave: a path, or a pattern."""
    path = os.fspath(name)
    return Address("", path, None, isinstance(name, os.PathLike) or _SPECIAL.search(path) is None)


def is_folder(address: Address) -> bool:
    """Whether an address is known to be a folder: it exists, or in a store, its name ends with a slash."""
    if address.root:
        return address.exact is None and (not address.path or address.path.endswith("/"))
    return os.path.isdir(address.path)


def find_files(
    store: RangeStore | None, addresses: Iterable[Address], in_folder: Sequence[str] = ()
) -> list[StoredFile]:
    """Look up the files or objects for addresses, in this order, each once.

    Args:
        store: The store that has them. ``None``: local files.
        in_folder: Patterns of the files that a folder stands for. Empty: folders are not accepted.

    Raises:
        FileNotFoundError: A pattern matches nothing, or a named object does not exist.
    """
    found: dict[str, StoredFile] = {}
    folders = None if store is None else StoreFolders(store)
    local = LocalFiles()
    for address in addresses:
        if folders is None:
            matching = [local.describe(path) for path in expand_local(address, in_folder)]
        else:
            matching = _find_stored(folders, address, in_folder)
        found.update((file.path, file) for file in matching)
    return list(found.values())


def expand_local(address: Address, in_folder: Sequence[str] = ()) -> list[str]:
    """The paths that a local address stands for. They need not exist, unless it has wildcards.

    Raises:
        FileNotFoundError: A pattern matches nothing.
    """
    path = address.path
    if address.is_literal or os.path.lexists(path):
        return _inside(path, in_folder)
    literal = _literal_beginning(path)
    paths: list[str] = []
    for rest in expand_braces(path[len(literal) :]):
        name = literal + rest
        if os.path.lexists(name) or _WILDCARD.search(rest) is None:
            paths += _inside(name, in_folder)
        else:
            paths += _globbed(glob.escape(_literal_beginning(name)), name[len(_literal_beginning(name)) :], name)
    return paths


def expand_names(address: Address) -> list[str]:
    """The names and patterns that an address stands for: with braces expanded, and local wildcards.

    Raises:
        FileNotFoundError: A local pattern matches nothing.
    """
    root, path, exact, is_literal = address
    if not root:
        return expand_local(address)
    if is_literal or exact is not None or exists(root, path):
        return [path]
    if expand_braces(path) == [path]:
        return [path]
    literal = _literal_folder(store_at(root), f"{path}/")
    return [path] if literal == f"{path}/" else [literal + rest for rest in expand_braces(path[len(literal) :])]


def expand_shard(given: str | os.PathLike[str]) -> list[tuple[str, Address]]:
    """The archives that an address stands for, each with its name in messages. They need not exist.

    Raises:
        FileNotFoundError: A pattern matches nothing.
        RuntimeError: A pattern or folder in a store cannot be listed.
    """
    address = parse_address(given)
    root, path, exact, is_literal = address
    if not root:
        return [(name, Address("", name, None, True)) for name in expand_local(address, SHARDS)]
    if exact is not None and not is_folder(address):
        return [(redacted(exact), address)]
    paths = [path]
    if is_folder(address):
        paths = [file.path for file in _listed_in(store_at(root), path, SHARDS)]
    elif not is_literal:
        paths = []
        for each in expand_names(address):
            if _WILDCARD.search(each) is None or root.startswith(("http://", "https://")):
                paths.append(each)
            else:
                store = store_at(root)
                paths += sorted(info.path for info in store.list(each)) or _refuse(each, store)
    return [(url_of(root, each), Address(root, each, None, True)) for each in paths]


def _refuse(name: str, store: RangeStore) -> list[str]:
    raise _not_found(name, store)


def _inside(path: str, in_folder: Sequence[str]) -> list[str]:
    if not in_folder or not os.path.isdir(path):
        return [path]
    beginning = os.path.join(path, "")
    return [
        name
        for pattern in in_folder
        for each in expand_braces(pattern)
        for name in _globbed(glob.escape(beginning), each, beginning + each)
    ]


def _globbed(escaped: str, pattern: str, shown: str) -> list[str]:
    found = sorted(name for name in glob.glob(escaped + pattern, recursive=True) if os.path.isfile(name))
    if not found:
        raise FileNotFoundError(f"no such shard or file, or none that matches: {shown!r}")
    return found


def _literal_beginning(path: str) -> str:
    """The longest beginning of a path that exists as it is written, with its last slash."""
    position = len(path)
    while (position := path.rfind("/", 0, position)) >= 0:
        if os.path.isdir(path[: position + 1]):
            return path[: position + 1]
    return ""


def _find_stored(folders: StoreFolders, address: Address, in_folder: Sequence[str]) -> list[StoredFile]:
    name, store = address.path, folders.store
    if address.exact is not None:
        return [folders.described(name)]
    if in_folder and is_folder(address):
        return _listed_in(store, name, in_folder)
    file = folders.get(name)
    if file is not None:
        return [file]
    if address.is_literal:
        if in_folder and folders.can_list and (found := _listed_in(store, f"{name}/", in_folder)):
            return found
        raise _not_found(name, store)
    found = []
    literal = _literal_folder(store, name)
    for each in (literal + rest for rest in expand_braces(name[len(literal) :])):
        if _WILDCARD.search(each) is not None:
            matching = sorted(map(as_stored, store.list(each)))
        else:
            matching = [file for file in [folders.get(each)] if file is not None]
        if not matching:
            raise _not_found(each, store)
        found += matching
    return found


def _literal_folder(store: RangeStore, name: str) -> str:
    """The longest beginning of a name that is a folder whose name has braces that would expand; else nothing."""
    position = len(name)
    while (position := name.rfind("/", 0, position)) >= 0:
        folder = name[: position + 1]
        if len(expand_braces(folder)) == 1:
            break
        try:
            if any(True for _ in store.list(f"{glob.escape(folder)}**/*")):
                return folder
        except RuntimeError:  # it cannot be listed
            break
    return ""


def _listed_in(store: RangeStore, folder: str, patterns: Sequence[str]) -> list[StoredFile]:
    found: list[StoredFile] = []
    for each in _expanded(patterns):
        matching = sorted(map(as_stored, store.list(glob.escape(folder) + each)))
        if not matching:
            raise _not_found(folder + each, store)
        found += matching
    return found


def _expanded(patterns: Sequence[str]) -> Iterator[str]:
    return (each for pattern in patterns for each in expand_braces(pattern))


def _not_found(name: str, store: RangeStore) -> FileNotFoundError:
    return FileNotFoundError(f"no such shard or file, or none that matches: {redacted(name)!r} in {store!r}")
