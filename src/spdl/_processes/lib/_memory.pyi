"""
Native part of spdl.pipeline: memory that two processes share, and what threads are doing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Buffer

class Exporter:
    """
    A buffer of bytes in memory that another object owns; the buffer keeps that object alive.

    Made by ``exporter``.
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

    ``as_writable``: export read-only memory as writable too, for consumers that will not write.
    """

def copy_to_bytes(view: Buffer) -> bytes:
    """Copy a contiguous buffer, once, and without the GIL if it is large."""

class ParkingLock:
    """
    A ``threading.Lock`` whose waiters sleep at once, instead of yielding their core 40 times first.

    For Python without the GIL. Who has waited for 100 us is given the lock when it is released; before that, whoever comes
    first takes it. A thread that sleeps has neither the GIL nor a place in the way of a garbage collection.
    """

    def __init__(self) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        """
        Take the lock. Returns False if it is not free, or not within ``timeout`` seconds.
        """

    def release(self) -> None:
        """
        Release the lock.

        Raises:
            RuntimeError: It is not locked.
        """

    def locked(self) -> bool:
        """Return whether it is locked."""

    def __enter__(self) -> None: ...
    def __exit__(self, type: object | None, value: object | None, traceback: object | None) -> None: ...

class PostponingLock:
    """
    A ``ParkingLock`` that one thread takes and releases.

    Threads that it wakes meanwhile, by releasing a ``ParkingLock``, wake up when this lock is free again.
    """

    def __init__(self) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        """
        Take the lock. Returns False if it is not free, or not within ``timeout`` seconds.
        """

    def release(self) -> None:
        """
        Release the lock.

        Raises:
            RuntimeError: It is not locked.
        """

    def locked(self) -> bool:
        """Return whether it is locked."""

    def __enter__(self) -> None: ...
    def __exit__(self, type: object | None, value: object | None, traceback: object | None) -> None: ...

class View:
    """
    A writable buffer of bytes in shared memory.

    It keeps the mapping, and holds a reference to its block, if it has one, until it and all objects made from it are
    gone.
    """

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Area:
    """
    Memory that this process shares with another: reference-counted blocks, and a few atomic words.

    Args:
        num_bytes: The capacity for data. Only pages that are written take memory.
        num_blocks: The largest number of blocks.
        has_bell: Whether one side will wait for the other.

    Raises:
        OSError: The system is out of memory or of file descriptors.
    """

    def __init__(self, num_bytes: int, num_blocks: int, *, has_bell: bool) -> None: ...
    @staticmethod
    def attach(fd: int, bell: tuple[int, int] | None = None, *, maps_data: bool = True) -> Area:
        """
        Map the area of another process by its descriptors, which the area takes over. Without `maps_data` it can drop
        blocks but has no views: for a process without enough address space for the data.
        """

    @property
    def data_offset(self) -> int:
        """Where the data begins in the file."""

    @property
    def num_bytes(self) -> int:
        """Room for data."""

    @property
    def num_blocks(self) -> int:
        """The largest number of blocks."""

    @property
    def fd(self) -> int:
        """Descriptor of the file; -1 when closed."""

    @property
    def bell(self) -> tuple[int, int] | None:
        """
        Descriptors to wait on the bell and to ring it, which may be the same; None without a bell.
        """

    @property
    def num_used_blocks(self) -> int:
        """Number of blocks that have references."""

    def for_this_process(self) -> Area:
        """
        The area itself; in a forked child, where the area does not count references, a new mapping. OSError: out of file descriptors.
        """

    def close(self) -> None:
        """
        Close the descriptors. The memory stays until the last view of it is gone.
        """

    def get(self, spans: Sequence[tuple[int, int, int]]) -> list[View]:
        """
        A view for each span, which takes over its reference. ValueError for a span of another area.
        """

    def drop(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """Drop the references of spans that will not be received."""

    def view(self, offset: int, num_bytes: int) -> View:
        """A part of the data. It holds no reference to a block."""

    def reserve(self, offset: int, num_bytes: int) -> None:
        """
        Reserve memory for a part of the data, so that writing cannot fail. OSError if there is none.
        """

    def copy_in(self, offset: int, buffer: Buffer) -> None:
        """Copy a buffer to the data, wrapping around at its end."""

    def copy_out(self, offset: int, num_bytes: int) -> bytearray:
        """Copy a part of the data, wrapping around at its end."""

    def count_up(self, block: int, count: int = 1) -> None:
        """Count more references to a block."""

    def count_down(self, block: int) -> None:
        """Drop a reference. The last one frees the block, and rings the bell."""

    def collect(self) -> list[int]:
        """The blocks that were freed since the last call."""

    def load(self, word: int) -> int:
        """Value of a word."""

    def store(self, word: int, value: int) -> None:
        """Set a word."""

    def add(self, word: int, value: int) -> int:
        """Add to a word, and return the sum."""

    def announce_wait(self) -> None:
        """
        Announce that this side will wait. Check the shared state again after it.
        """

    def wait(self, seconds: float) -> bool:
        """
        Wait until the other side rings, or the area is closed; False after a timeout. ValueError if already closed.
        """

    def ring(self) -> None:
        """Wake the other side, if it announced that it waits."""

class Sender:
    """
    The sending side of an area, which allocates its blocks. One for each area.

    Thread-safe. In a forked child it never has room.
    """

    def __init__(self, area: Area) -> None: ...
    def put(self, buffers: Sequence[Buffer]) -> list[tuple[int, int, int]] | None:
        """
        Copy each buffer to a block of its own; a buffer that lies in a slot is not copied.

        Args:
            buffers: The contiguous buffers, of any type and in C or Fortran order.

        Returns:
            The block, the offset in the data and the size in bytes of each buffer.
            None, and nothing is copied, if there is no room.
        """

    def take_back(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """Undo a put that was not sent."""

    def slot(self, num_bytes: int) -> View | None:
        """
        A block to be filled in place, aligned to 64 bytes; None if there is no room.
        """

    def trim(self) -> None:
        """Return all free memory to the system."""

    def close(self) -> None:
        """Close the descriptor. After that there is no room."""

    @property
    def num_bytes_used(self) -> int:
        """Bytes in blocks that have references."""

    @property
    def num_bytes_reserved(self) -> int:
        """Bytes of the system's memory for data."""

def exit_on_hangup(fd: int, grace_seconds: float) -> None:
    """
    End this process, with exit code 1, ``grace_seconds`` after the other end of ``fd`` was closed.

    A native thread watches a duplicate of ``fd`` for as long as the process lives; it needs no GIL. Nothing is cleaned
    up.
    """

class Watchdog:
    """
    Reports a standstill that Python cannot report because native code holds the GIL.

    A native thread, which ends with this object, writes the stacks of Python's threads. Thread-safe.

    Args:
        fd: Descriptor to write to. It is duplicated.

    Raises:
        OSError: The system is out of threads or of file descriptors.
    """

    def __init__(self, fd: int) -> None: ...
    def lived(self) -> float:
        """
        Return the seconds that this process has run since the start, not counting time while it was stopped.
        """

    def arm(self, seconds: float, text: str) -> None:
        """
        Report ``text`` and the stacks after a wait of ``seconds`` from now on, unless called again before.
        """

    def disarm(self) -> None:
        """Cancel the report."""

    def close(self) -> None:
        """End the thread. Does not wait for it. Idempotent."""

    def set_waiting(self, is_waiting: bool) -> None:
        """Set whether anybody is waiting, from now on."""

    def take_report(self) -> bool:
        """Return whether a report was written since the last call."""

def offset_of(object: object, value: object, size: int) -> int:
    """
    Return the offset, in bytes, of the word of an object of ``size`` bytes that refers to ``value``; 0 if no word does, or several do.
    """

class Sampler:
    """
    Counts what the threads of a pipeline are doing. The sampler's own thread needs no GIL.

    Thread-safe. In a forked child it does nothing.

    Args:
        num_stages: The number of stages.
        period: Mean time between two observations of all threads, in seconds.
        has_gil: Whether this interpreter has a GIL.
        most_share: Share of a CPU that the observations may take. They wait until it covers what they cost.

    Raises:
        OSError: This system does not show what its threads do, or no thread could be started.
    """

    def __init__(self, num_stages: int, period: float, has_gil: bool, most_share: float = 1.0) -> None: ...
    @property
    def knows_gil(self) -> bool:
        """Whether waits for the GIL can be told from waits for other locks."""

    @property
    def knows_holder(self) -> bool:
        """Whether the thread that holds the GIL is known."""

    def enter(self, stage: int) -> None:
        """Record that the calling thread begins a call of a stage."""

    def leave(self) -> None:
        """Record that the calling thread ends its call."""

    def assign(self, native_id: int, stage: int) -> None:
        """Count everything that a thread does for this stage."""

    def watch(self, native_id: int, thread: object, call: int, owner: int) -> None:
        """
        Count what a thread does for the stage of the object that it keeps at the offset ``owner`` of ``thread``, while the word at the offset ``call`` is not ``None``. Costs the thread nothing.
        """

    def name(self, owner: object, stage: int) -> None:
        """
        Say which stage an object stands for. It is compared by identity, and not kept alive.
        """

    def adopt(self, native_id: int, stage: int) -> None:
        """
        Record that a thread is in a call that began earlier. Its observations count until ``forget``.
        """

    def forget(self, native_id: int) -> None:
        """
        Record that the call of an adopted thread has ended at an unknown time.
        """

    def read(
        self,
    ) -> tuple[int, int, int, float, list[tuple[int, int, int, int, int, int, float, int, float, int, float]]]:
        """
        Return the counts so far.

        Returns:
            The number of observations of all threads; of them, how many found the GIL held, and how many found it held by a
            thread that works for no stage; CPU seconds of the threads that call ``enter``; and for each stage the number of
            observations of a thread, and how many of them found it running, waiting for the GIL, waiting for another lock, in
            another system call, and holding the GIL; the CPU seconds of its assigned threads; and the number and the CPU
            seconds of measured
            calls that ran alone, and of those that ran beside others of the stage.
        """

    def close(self) -> None:
        """End the thread. What was counted can still be read. Idempotent."""

class FrameRing:
    """
    A ring in shared memory for small messages to another process.

    One side puts, the other side takes; neither waits. Thread-safe. In a forked child it has no room and no messages.

    Args:
        capacity: The size in bytes: a power of two, at least one page. Only pages that were used take memory.

    Raises:
        OSError: The system is out of memory or of file descriptors.
    """

    def __init__(self, capacity: int) -> None: ...
    @staticmethod
    def attach(fd: int) -> FrameRing:
        """
        Map the ring of another process by its descriptor, which the ring takes over. OSError if it cannot.
        """

    @property
    def fd(self) -> int:
        """Descriptor of the file; -1 when closed."""

    def close_file(self) -> None:
        """Close the descriptor. The mapping stays."""

    @property
    def max_size(self) -> int:
        """Bytes in the largest message."""

    def put(self, pieces: Sequence[Buffer]) -> int:
        """
        Append one message, made of all pieces.

        Returns:
            0: not put, because there is no room or no reader. 1: put. 2: put, and the caller must wake the reader.
        """

    def count_other(self, count: int) -> None:
        """
        Count messages that were sent or received another way; they come before all later puts.
        """

    def open_reader(self) -> None:
        """Start accepting messages. Until then, puts are refused."""

    def close_reader(self) -> None:
        """Stop accepting messages. Idempotent."""

    def take(self, enough: int) -> bytes:
        """
        The available messages, joined: whole and in order, until they have at least ``enough`` bytes. OSError if the ring is damaged.
        """

    def has_message_or_announce(self) -> bool:
        """
        Whether a message can be taken. If not, the next ``put`` returns 2: the reader waits.
        """

    def spin(self) -> bool:
        """
        Wait some microseconds for a message, unless recent waits were in vain. True if there is one.
        """

class Writer:
    """
    Writes to a socket on a thread of its own, which needs no GIL.

    Puts in quick succession are gathered for 100 us and written together; a put after a pause, or one that is
    urgent, is written at once.
    Thread-safe. It does not keep the connection open for the other side after the socket is shut down.

    Args:
        fd: The connected stream socket; a duplicate is used.
        max_bytes_pending: The number of unwritten bytes above which ``put`` waits; None means that it never waits.
    """

    def __init__(self, fd: int, max_bytes_pending: int | None = None) -> None: ...
    def put(self, pieces: Sequence[Buffer], urgent: bool = False) -> None:
        """
        Write a copy of all pieces, in order and contiguously.

        While more than ``max_bytes_pending`` bytes are unwritten, waits without the GIL until the other side reads, the writer
        is closed, or the connection ends.

        Args:
            pieces: The contiguous buffers.
            urgent: Whether to write at once, without gathering, because the receiver is waiting.

        Raises:
            OSError: A write has failed; nothing more will be written.
        """

    def drain(self, timeout: float) -> bool:
        """
        Wait at most ``timeout`` seconds until all bytes are written; False after a timeout.
        """

    def close(self) -> None:
        """Stop writing. Does not wait. Idempotent."""

    @property
    def num_bytes_pending(self) -> int:
        """Bytes that are not written yet."""

class TraceTrack:
    """
    Writes the lines of a trace for the calls on one track.

    Args:
        head: The text before the name.
        middle: The text between the name and the time.
        tail: The text after the number of the flow.
        offset: Microseconds to add to start times.
        first_flow: What to add to an item's number to get the number of its flow.
    """

    def __init__(self, head: str, middle: str, tail: str, offset: float, first_flow: int) -> None: ...

class TraceLines:
    """
    Writes the lines of a trace for all stages of a pipeline. Not thread-safe.

    Args:
        nodes: The stages. They are compared by identity, and must outlive this object.
    """

    def __init__(self, nodes: list[Any]) -> None: ...
    def make(
        self,
        notes: list[Any],
        begin_track: Callable[[int], tuple[str, TraceTrack]],
        other: Callable[[Any, int, int], str],
    ) -> bytes:
        """
        Return the lines of calls and waits, as UTF-8.

        Args:
            notes: The recorded calls and waits, ordered by end time: the stage, the start and end times in seconds, the item,
                and the class of an exception. Without an item, the stage waited.
            begin_track: Called with the number of a stage that needs another track. Returns the lines that precede the track's
                own lines, and the track.
            other: Writes the line of a note of a rare kind, given the note, the number of its stage, and the number of its
                track in the stage.
        """
