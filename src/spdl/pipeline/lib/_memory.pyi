"""Native part of spdl.pipeline: memory that two processes share."""

from collections.abc import Sequence

from typing_extensions import Buffer

class Exporter:
    """
    A buffer of bytes in memory that another object keeps alive, and it that.

    ``exporter`` makes them.
    """

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def exporter(address: int, num_bytes: int, owner: object, readonly: bool) -> Exporter:
    """
    A buffer of bytes at an address, in memory that ``owner`` keeps alive. Nothing is checked.
    """

def exporter_of(buffer: Buffer, owner: object, as_writable: bool = False) -> Exporter:
    """
    The bytes of a contiguous buffer, which ``owner`` keeps alive and in place.

    ``as_writable``: say so of read-only memory too, to somebody who will not write.
    """

def copy_to_bytes(view: Buffer) -> bytes:
    """Copy a contiguous buffer, once, and without the GIL if it is large."""

class View:
    """
    A writable buffer of bytes in shared memory.

    It keeps the mapping, and holds a reference to its block, if it has one, until it and all that was made of it is
    gone.
    """

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Area:
    """
    Memory that this process shares with another: blocks with counts, and a few words.

    Args:
        num_bytes: Room for data. Only what is written takes memory.
        num_blocks: How many blocks it may be divided into.
        has_bell: Whether one side will wait for the other.

    Raises:
        OSError: The system has no such memory, or no descriptor, left.
    """

    def __init__(self, num_bytes: int, num_blocks: int, *, has_bell: bool) -> None: ...
    @staticmethod
    def attach(fd: int, bell: tuple[int, int] | None = None, *, maps_data: bool = True) -> Area:
        """
        What another process made, by its descriptors, which the area takes over. Without `maps_data` it can drop
        blocks and has no views: for a process without address space for all of it.
        """

    @property
    def data_offset(self) -> int:
        """Where the data begins in the file."""

    @property
    def num_bytes(self) -> int:
        """Room for data."""

    @property
    def num_blocks(self) -> int:
        """How many blocks there may be."""

    @property
    def fd(self) -> int:
        """Descriptor of the file; -1 when closed."""

    @property
    def bell(self) -> tuple[int, int] | None:
        """
        Descriptors of the bell, to wait and to ring, which may be the same; None without one.
        """

    @property
    def num_used_blocks(self) -> int:
        """How many blocks have references."""

    def for_this_process(self) -> Area:
        """
        Itself; in the child of a fork, where it counts nothing, one of its own. OSError: no descriptor is left.
        """

    def close(self) -> None:
        """
        Close the descriptors. The memory stays until the last view of it is gone.
        """

    def get(self, spans: Sequence[tuple[int, int, int]]) -> list[View]:
        """
        A view for each span, which takes its reference over. ValueError for what is no span of this area.
        """

    def drop(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """Drop the references of spans that nobody will get."""

    def view(self, offset: int, num_bytes: int) -> View:
        """A part of the data. It holds no reference to a block."""

    def reserve(self, offset: int, num_bytes: int) -> None:
        """
        Have the system give a part of the data memory, so that writing cannot fail. OSError if it has none.
        """

    def copy_in(self, offset: int, buffer: Buffer) -> None:
        """
        Copy a buffer to the data. What does not fit before its end goes on at its beginning.
        """

    def copy_out(self, offset: int, num_bytes: int) -> bytearray:
        """Copy a part of the data, which may go on at its beginning likewise."""

    def count_up(self, block: int, count: int = 1) -> None:
        """Count more references to a block."""

    def count_down(self, block: int) -> None:
        """Drop one. The last one frees the block, and rings."""

    def collect(self) -> list[int]:
        """The blocks that were freed since the last call."""

    def load(self, word: int) -> int:
        """Value of a word."""

    def store(self, word: int, value: int) -> None:
        """Set a word."""

    def add(self, word: int, value: int) -> int:
        """Add to a word, and tell the sum."""

    def announce_wait(self) -> None:
        """Say that this side will wait. Look at the state after it."""

    def wait(self, seconds: float) -> bool:
        """
        Wait until the other side rings, or the area is closed; False if neither was in time. ValueError if closed.
        """

    def ring(self) -> None:
        """Wake the other side, if it said that it waits."""

class Sender:
    """
    The sending side of an area, which decides what lies where. One for each area.

    Safe to use from several threads. In the child of a fork it never has room.
    """

    def __init__(self, area: Area) -> None: ...
    def put(self, buffers: Sequence[Buffer]) -> list[tuple[int, int, int]] | None:
        """
        Copy each buffer to a block of its own; one that lies in a slot stays where it is.

        Args:
            buffers: Contiguous buffers, of any type and in either order.

        Returns:
            For each buffer its block, its offset in the data and its size in bytes.
            None, and nothing is put, if there is no room.
        """

    def take_back(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """Undo a put that nobody was told of."""

    def slot(self, num_bytes: int) -> View | None:
        """
        A block to be filled in place, aligned to 64 bytes; None if there is no room.
        """

    def trim(self) -> None:
        """Give the memory of everything that is free back to the system."""

    def close(self) -> None:
        """Close its descriptor. From now on there is no room."""

    @property
    def num_bytes_used(self) -> int:
        """Bytes in blocks that somebody refers to."""

    @property
    def num_bytes_reserved(self) -> int:
        """Bytes of the system's memory for data."""

def exit_on_hangup(fd: int, grace_seconds: float) -> None:
    """
    End this process, with exit code 1, ``grace_seconds`` after the other end of ``fd`` is gone.

    A native thread watches a duplicate of ``fd`` for as long as the process lives; it needs no GIL. Nothing is cleaned
    up.
    """

class Writer:
    """
    Writes to a socket on a thread of its own, which needs no GIL.

    What comes fast is gathered for 100 us and leaves in one write; what comes after a pause, or is
    urgent, leaves at once.
    Safe to use from several threads. It does not keep the socket open for the other side once that is shut down.

    Args:
        fd: A connected stream socket; a duplicate is used.
        max_bytes_pending: While more than that is not written yet, ``put`` waits; None: it never does.
    """

    def __init__(self, fd: int, max_bytes_pending: int | None = None) -> None: ...
    def put(self, pieces: Sequence[Buffer], urgent: bool = False) -> None:
        """
        Have a copy of all pieces written, in order and in one piece.

        Waits only while more than ``max_bytes_pending`` is not written yet, without the GIL, until the other side
        reads, the writer is closed, or the connection ends.

        Args:
            pieces: Contiguous buffers.
            urgent: Somebody waits for this: do not gather.

        Raises:
            OSError: A write has failed; nothing is written any more.
        """

    def drain(self, timeout: float) -> bool:
        """
        Wait, at most ``timeout`` seconds, until all is written; False if it is not.
        """

    def close(self) -> None:
        """Write nothing more. Does not wait. Idempotent."""

    @property
    def num_bytes_pending(self) -> int:
        """Bytes that are not written yet."""
