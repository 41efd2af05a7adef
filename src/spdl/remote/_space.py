"""Disk space of a cache: one account for all processes, and eviction of the least recently used files.

The number of bytes in the folder never exceeds the limit, even if a process is killed at any moment:

1. Under a lock of the whole folder (``flock``), the bytes of a new file are added to the account, after older files
  were removed if necessary. Then the temporary file gets its full length, so that it counts in every later listing.
2. Without that lock, the file is filled, and renamed.

A process killed in between leaves an account that is too high, which the next listing corrects, or a temporary file.
A temporary file is locked by the process that fills it, so one that can be locked was left behind, and is removed.

The account is also the mark of the folder: a folder without it is used only if it is empty or all names in it are those
of a cache. Only files with such names are counted and removed, whatever else is put there later.
"""

import errno
import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: Files occupy whole blocks of the file system.
_BLOCK = 4096
#: The largest share of the limit that is filled after an eviction, so that folders are rarely listed.
_FILLED = 0.9
#: How long another process may hold the lock, in seconds: it may list many files.
_PATIENCE = 10.0
#: How long after that no thread waits for the lock again.
_REST = 10.0
_TEMPORARY = "tmp"
#: It holds ``_MARK``, and the number of bytes in eight more.
_ACCOUNT = ".spdl-cache"
_MARK = b"SPDL disk cache\n"
#: Names of folders, and in each the names of its files: temporary ones, and those of blocks (``DiskCache._path_of``).
_NAMES = {_TEMPORARY: re.compile(r"[0-9a-f]{24}"), "block": re.compile(r"[0-9a-f]{38}")}
_FOLDER_OF_BLOCKS = re.compile(r"[0-9a-f]{2}")
#: The account of caches that were made before there was a mark: eight bytes.
_FORMER_ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Reserved:
    """A temporary file of full length, locked while it is open."""

    descriptor: int
    path: str

    def fill(self, parts: "list[memoryview]", path: str) -> None:
        """Write the content and give the file its name.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        offset = 0
        for part in parts:
            while part:
                written = os.pwrite(self.descriptor, part, offset)
                offset += written
                part = part[written:]
        os.rename(self.path, path)

    def close(self) -> None:
        """Unlock the file; remove it if it was not renamed."""
        with suppress(OSError):
            os.unlink(self.path)
        # A child forked in between has the descriptor too, so closing alone would not unlock it.
        with suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)


class Space:
    """The files below a folder. Thread-safe, and shared by processes.

    Args:
        limit: Most bytes of all files.
    """

    def __init__(self, folder: str, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._mutex, self._pid = threading.Lock(), 0
        self._busy_until = 0.0
        self._is_ours = False

    def reserve(self, num_bytes: int) -> Reserved | None:
        """Return a temporary file of that length; ``None``: it is larger than the limit.

        Raises:
            OSError: The folder cannot be written, or another process does not release the lock.
        """
        charge = _charged(num_bytes)
        if charge > self._limit:
            return None
        with self._locked() as account:
            text = os.pread(account, 8, len(_MARK))
            used = int.from_bytes(text, "little") if len(text) == 8 else None
            if used is None or used + charge > self._limit:
                used = self._make_room(charge)
            os.pwrite(account, _MARK + (used + charge).to_bytes(8, "little"), 0)
            path = os.path.join(self._folder, _TEMPORARY, os.urandom(12).hex())
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            reserved = Reserved(descriptor, path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.truncate(descriptor, num_bytes)
            except OSError:
                reserved.close()
                raise
        return reserved

    def num_bytes(self) -> int:
        """Number of bytes of all files now."""
        return sum(size for _, size, _ in self._files())

    def _make_room(self, charge: int) -> int:
        """Remove abandoned files and, if necessary, the least recently used ones. Return the remaining bytes."""
        files = sorted(self._files(remove_abandoned=True))
        used = sum(size for _, size, _ in files)
        if used + charge <= self._limit:
            return used
        target = min(int(self._limit * _FILLED), self._limit - charge)
        for _, size, path in files:
            if used <= target:
                break
            if os.path.basename(os.path.dirname(path)) != _TEMPORARY:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                used -= size
        return used

    def _files(self, *, remove_abandoned: bool = False) -> Iterator[tuple[float, int, str]]:
        """Time of last use, size and path of each file of the cache."""
        with os.scandir(self._folder) as folders:
            found = [(entry.path, names) for entry in folders if (names := _names_in(entry)) is not None]
        for folder, names in found:
            is_temporary = os.path.basename(folder) == _TEMPORARY
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not _is_file(entry, names):
                        continue
                    if is_temporary and remove_abandoned and _remove_abandoned(entry.path):
                        continue
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        yield status.st_mtime, _charged(status.st_size), entry.path

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The account, locked against other threads and processes."""
        with self._mutex_of_process():
            path = os.path.join(self._folder, _ACCOUNT)
            if not self._is_ours:
                self._claim_folder()
                self._is_ours = True
            account = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            try:
                if os.pread(account, len(_MARK), 0) not in (_MARK, b""):
                    raise OSError(errno.EEXIST, "it is no account of a cache", path)
                self._lock(account, path)
                try:
                    os.makedirs(os.path.join(self._folder, _TEMPORARY), exist_ok=True)
                    yield account
                finally:
                    fcntl.flock(account, fcntl.LOCK_UN)  # see Reserved.close
            finally:
                os.close(account)

    def _claim_folder(self) -> None:
        """Make the folder, or check that it may be used; adopt a cache of before."""
        os.makedirs(self._folder, exist_ok=True)
        foreign = foreign_name(self._folder)
        if foreign is not None:
            raise FileExistsError(errno.EEXIST, f"it is no cache: it has {foreign!r}", self._folder)
        former = os.path.join(self._folder, _FORMER_ACCOUNT)
        if not os.path.lexists(os.path.join(self._folder, _ACCOUNT)) and os.path.lexists(former):
            with suppress(FileNotFoundError):  # another process was faster
                os.unlink(former)

    def _lock(self, account: int, path: str) -> None:
        """Wait for the lock, with a time limit: a stopped process may hold it."""
        deadline = time.monotonic() + _PATIENCE
        pause = 0.0005
        while True:
            try:
                return fcntl.flock(account, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now = time.monotonic()
                if now < self._busy_until:
                    raise TimeoutError(f"another process has locked {path!r}") from None
                if now >= deadline:
                    self._busy_until = now + _REST
                    raise TimeoutError(f"another process has locked {path!r} for {_PATIENCE:g} s") from None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _mutex_of_process(self) -> threading.Lock:
        # A lock that another thread held during a fork stays locked in the child.
        pid = os.getpid()
        if self._pid != pid:
            self._mutex, self._pid = threading.Lock(), pid  # in this order, for other threads
        return self._mutex


def _charged(num_bytes: int) -> int:
    return -(-num_bytes // _BLOCK) * _BLOCK


def foreign_name(folder: str) -> str | None:
    """The name of something that no cache has put into the folder.

    ``None``: the folder does not exist, is empty, carries the mark, or has only names of a cache.
    """
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except FileNotFoundError:
        return None
    if any(entry.name == _ACCOUNT and entry.is_file(follow_symlinks=False) for entry in found):
        return None
    for entry in found:
        names = _names_in(entry)
        if names is not None:
            with os.scandir(entry.path) as files:
                for file in files:
                    if not _is_file(file, names):
                        return os.path.join(entry.name, file.name)
        elif entry.name != _FORMER_ACCOUNT or not _is_former_account(entry):
            return entry.name
    return None


def _names_in(folder: "os.DirEntry[str]") -> "re.Pattern[str] | None":
    """Names of the files in a folder of a cache; ``None``: it is not one."""
    if not folder.is_dir(follow_symlinks=False):
        return None
    if folder.name == _TEMPORARY:
        return _NAMES[_TEMPORARY]
    return _NAMES["block"] if _FOLDER_OF_BLOCKS.fullmatch(folder.name) else None


def _is_file(entry: "os.DirEntry[str]", names: "re.Pattern[str]") -> bool:
    return names.fullmatch(entry.name) is not None and entry.is_file(follow_symlinks=False)


def _is_former_account(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size in (0, 8)


def _remove_abandoned(path: str) -> bool:
    """Remove a temporary file that no process is filling."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return not Path(path).exists()
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
