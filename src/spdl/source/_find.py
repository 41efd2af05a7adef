"""Find the files that addresses stand for: a name, a folder, or a pattern with braces and wildcards.

A name is tried literally before it is expanded, and so is the beginning of a pattern. A path object is never expanded.
The store of ``spdl.remote`` that has them is found here too, and imported when the first URL comes.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from spdl._addresses import Address, parse_address, redacted, url_of

from ._stores import LocalFiles, RangeStore, StoredFile, StoreFolders, as_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.remote import RemoteStore

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


def expand_braces(pattern: str) -> list[str]:
    """Return the names that a pattern with braces stands for, in order.

    ``{000..012}`` counts, with as many digits as written; ``{0..8..2}`` counts in steps; ``{train,val}`` lists
    alternatives. Several braces give all combinations. Braces with other contents stay unchanged.
    """
    parts: list[list[str]] = []
    place = 0
    for match in _BRACES.finditer(pattern):
        parts += [[pattern[place : match.start()]], list(_choices(match[0], match[1]))]
        place = match.end()
    parts.append([pattern[place:]])
    return ["".join(chosen) for chosen in product(*parts)]


def braced(name: str | os.PathLike[str]) -> list[str]:
    """The names that a name with braces stands for; a path object is never expanded."""
    return [os.fspath(name)] if isinstance(name, os.PathLike) else expand_braces(name)


def _choices(whole: str, inside: str) -> Iterator[str]:
    counted = _RANGE.fullmatch(inside)
    if counted is None:
        yield from inside.split(",") if "," in inside else [whole]
        return
    first, last = int(counted[1]), int(counted[2])
    step = abs(int(counted[3] or 1)) or 1
    is_padded = any(len(text.lstrip("-")) > 1 and text.lstrip("-")[0] == "0" for text in (counted[1], counted[2]))
    width = max(len(counted[1]), len(counted[2])) if is_padded else 0
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    for number in numbers:
        yield f"{number:0{width}}"


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
    """The store of a bucket or host, without options; ``exact`` are paths that are requested by a given URL."""
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
                found = sorted(info.path for info in store.list(each))
                if not found:
                    raise _not_found(each, store)
                paths += found
    return [(url_of(root, each), Address(root, each, None, True)) for each in paths]


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
    for each in (each for pattern in patterns for each in expand_braces(pattern)):
        matching = sorted(map(as_stored, store.list(glob.escape(folder) + each)))
        if not matching:
            raise _not_found(folder + each, store)
        found += matching
    return found


def _not_found(name: str, store: RangeStore) -> FileNotFoundError:
    return FileNotFoundError(f"no such shard or file, or none that matches: {redacted(name)!r} in {store!r}")
