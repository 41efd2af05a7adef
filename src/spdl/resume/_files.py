"""Saves states in files: after a crash at any moment, a file holds either the old state or the new one, complete.

A file has two lines, each a JSON document: a header with length and checksum of the second line, and the state. So
people and other programs can read it, and truncation or changes are detected.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import zlib
from collections.abc import Mapping
from typing import Any, Final

from ._values import ResumeError

_FORMAT: Final = "spdl.resume"
_VERSION: Final = 1
#: A longer first line is not a header. Headers have about 80 bytes.
_MAX_HEADER: Final = 1000
#: Errors of ``fsync`` of a folder on file systems that do not support it.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state to a file atomically: a crash at any moment leaves either the old file or the new one.

    .. code-block:: python

        resume.save("data.json", {"step": 100, "data": pipeline.state_dict()})

    The state is written to a temporary file in the same folder, flushed to disk (``fsync``), and renamed to ``path``;
    then the folder is flushed too. When this returns, the state survives a power failure.

    Args:
        path: The file. If it exists, it is replaced and keeps its permissions; for a symbolic link, the target is
            replaced. Its folder must exist.
        state: Result of ``state_dict()`` or :func:`gather`, or a dictionary of such states and other JSON values, such
            as ``{"step": 100, "train": state}``.

    Raises:
        ResumeError: The state has a value that JSON cannot represent. Nothing has been written.
        OSError: The file cannot be written. The old one is unchanged.

    In a distributed run, let one rank write the result of :func:`gather`, or each rank its own file. If the process is
    killed during this call, a file ``.NAME.*.tmp`` may remain next to ``path``; you can delete it.
    """
    if not isinstance(state, Mapping):
        raise ResumeError(
            f"cannot save a state to {os.fspath(path)!r}: a state is a dictionary as state_dict() returns it, got an "
            f"object of type {type(state).__qualname__}"
        )
    try:
        _check_keys(state)
        text = json.dumps(dict(state), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ResumeError(
            f"cannot save a state to {os.fspath(path)!r}: it has a value that is not JSON ({exc}). Tensors and arrays "
            "belong in the checkpoint of the model"
        ) from exc
    body = text.encode("ascii")
    header = {"crc32": f"{zlib.crc32(body):08x}", "format": _FORMAT, "length": len(body), "version": _VERSION}
    replace_file(os.path.realpath(os.fspath(path)), json.dumps(header).encode("ascii") + b"\n" + body + b"\n")


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a state that :func:`save` wrote.

    .. code-block:: python

        resume.save("data.json", {"step": 100, "data": pipeline.state_dict()})
        state = resume.load("data.json")
        pipeline.load_state_dict(state["data"])

    Args:
        path: The file.

    Returns:
        The saved value after a JSON round trip: tuples become lists.

    Raises:
        ResumeError: The file is empty, truncated, damaged, of another format, or of another version.
        OSError: It cannot be read; ``FileNotFoundError``: it does not exist.
    """
    with open(path, "rb") as file:
        content = file.read()
    name = repr(os.fspath(path))
    if not content:
        raise ResumeError(
            f"cannot load a state from {name}: the file is empty. save() leaves no empty files, so it was made or "
            "emptied by something else; use an older state"
        )
    first, newline, rest = content[: _MAX_HEADER + 1].partition(b"\n")
    header = _parse_header(first)
    if header is None:
        is_start = not newline and _is_start_of_header(first)
        raise ResumeError(
            f"cannot load a state from {name}: "
            + (
                f"the file is truncated after {len(content)} bytes; use an older state"
                if is_start
                else "it was not written by spdl.resume.save(). Read a state of another library with that library, "
                "and pass it to load_state_dict()"
            )
        )
    if header.get("version") != _VERSION:
        raise ResumeError(
            f"cannot load a state from {name}: the file has version {header.get('version')!r}, and this release of "
            f"SPDL reads version {_VERSION}. Load it with the release that saved it"
        )
    body = content[len(first) + 1 :]
    length = header.get("length")
    if not isinstance(length, int) or not rest or len(body) < length + 1:
        raise ResumeError(
            f"cannot load a state from {name}: the file is truncated, it has {len(body)} of {length} bytes; use an "
            "older state"
        )
    text = body[:length]
    if len(body) != length + 1 or f"{zlib.crc32(text):08x}" != header.get("crc32"):
        raise ResumeError(
            f"cannot load a state from {name}: the file is damaged, its checksum is not that of its content; use an "
            "older state"
        )
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ResumeError(f"cannot load a state from {name}: {exc}, though its checksum is right") from exc
    if not isinstance(state, dict):
        raise ResumeError(f"cannot load a state from {name}: it holds a {type(state).__name__}, not a dictionary")
    return state


def _check_keys(value: object) -> None:
    """Reject keys that are not text: JSON would turn them into text."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys must be text, got {key!r}")
            _check_keys(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_keys(each)


def _parse_header(line: bytes) -> dict[str, Any] | None:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) and header.get("format") == _FORMAT else None


def _is_start_of_header(line: bytes) -> bool:
    """Whether this is the beginning of a header, cut off before its end."""
    start = b'{"crc32": "'
    return line.startswith(start) or start.startswith(line)


def replace_file(path: str, content: bytes | memoryview[int]) -> None:
    """Write a file so that a crash at any moment leaves either the old one or the new one. No temporary file remains.

    Raises:
        OSError: The file cannot be written.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.tmp")
    # As open() creates files: the umask decides who may read it.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            _keep_mode(descriptor, path)
            _write(descriptor, content)
            _sync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(folder or os.curdir)


def _keep_mode(descriptor: int, path: str) -> None:
    try:
        mode = os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return
    os.fchmod(descriptor, mode)


def _write(descriptor: int, content: bytes | memoryview[int]) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":  # where fsync leaves the data in the disk's cache
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _sync_folder(folder: str) -> None:
    """Flush the new name to disk, if the file system supports this for folders."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)
