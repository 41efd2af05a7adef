"""An arena of the user's own, over a file, that writes down how it is used."""

import mmap
import multiprocessing
import os
from pathlib import Path
from typing import Any

__all__ = ["FileArena"]

#: Bytes of the file, which is sparse: nothing is ever used twice.
SIZE = 1 << 28


class FileArena:
    """Carries leaves in a file. Its lock can go along with a new process and in no other way.

    Args:
        folder: Where the file and the two diaries, ``writer`` and ``owner``, are.
        zero_copy: Whether what is read are views of the file, or copies.
    """

    def __init__(self, folder: Path, *, zero_copy: bool = False) -> None:
        self.folder = folder
        self.zero_copy = zero_copy
        self.lock = multiprocessing.get_context("spawn").Lock()
        with (folder / "data").open("wb") as file:
            file.truncate(SIZE)

    def note(self, diary: str, *words: object) -> None:
        with self.lock, (self.folder / diary).open("a") as file:
            print(*words, file=file)

    def read(self, diary: str) -> list[str]:
        """What has been written down so far."""
        path = self.folder / diary
        return path.read_text().splitlines() if path.exists() else []

    def open_writer(self) -> "FileWriter":
        return FileWriter(self)

    def open_reader(self) -> "FileReader":
        return FileReader(self)

    def close(self) -> None:
        self.note("owner", "close")

    def unlink(self) -> None:
        self.note("owner", "unlink")

    def shutdown_arena(self) -> None:
        self.note("owner", "shutdown")


def _map(arena: FileArena) -> mmap.mmap:
    descriptor = os.open(arena.folder / "data", os.O_RDWR)
    try:
        return mmap.mmap(descriptor, SIZE)
    finally:
        os.close(descriptor)


class FileWriter:
    def __init__(self, arena: FileArena) -> None:
        self.arena = arena
        self.memory = _map(arena)
        self.position = self.start = 0

    def reset(self) -> None:
        self.arena.note("writer", "reset")

    def begin_unit(self) -> None:
        self.arena.note("writer", "begin")
        self.start = self.position

    def write_binary(self, data: Any) -> tuple[int, int]:
        view = memoryview(data).cast("B")
        offset, self.position = self.position, self.position + view.nbytes
        self.memory[offset : self.position] = view
        self.arena.note("writer", "write", view.nbytes)
        return offset, view.nbytes

    def commit_unit(self) -> int:
        self.arena.note("writer", "commit")
        return self.position - self.start

    def abort_unit(self) -> None:
        self.arena.note("writer", "abort")
        self.position = self.start


class FileReader:
    def __init__(self, arena: FileArena) -> None:
        self.arena = arena
        self.zero_copy = arena.zero_copy
        self.memory = memoryview(_map(arena))
        self.arena.note("owner", "reader")

    def reset(self) -> None:
        self.arena.note("owner", "reset")

    def read_binary(self, offset: int, nbytes: int) -> memoryview:
        view = self.memory[offset : offset + nbytes]
        return view if self.zero_copy else memoryview(bytearray(view))

    def end_unit(self, span: int, pinned: list[object]) -> None:
        self.arena.note("owner", "end", span, len(pinned))
