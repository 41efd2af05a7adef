"""The automatic arena: shared memory for what one process sends to another, sized by itself.

The memory is anonymous. It is as large as its limit from the beginning, but takes memory only as it is used, so
nothing is mapped, and no descriptor travels, after the start. Each buffer that is sent gets a block of it, and is read
in place; the block is free again when the last view of it is gone, wherever that is kept. Only the sender decides what
lies where, so the two never wait for each other, and either may be killed at any moment: the memory goes with the last
process that has it mapped. Where there is no room, the sender is told, and sends another way.

How memory is asked of the system, reused and given back: ``native/shared/sender.h``; what the two sides share:
``native/shared/area.h``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, Final

from spdl._processes._memory import Area, Sender, View
from spdl._reports import add_note

__all__ = [
    "Arena",
    "ArenaReceiver",
    "ArenaSender",
    "ReadingReceiver",
    "arena_slot",
    "default_limit",
    "lacks_memory",
    "pass_descriptors",
    "set_current",
    "take_descriptors",
]

#: How many buffers can be in the arena at a time.
_NUM_BLOCKS: Final = 16384
_MOST: Final = 8 << 30
_LEAST: Final = 64 << 20
#: The system refuses so much address space, or so large a file: less will do. The limit is only a limit.
_TOO_LARGE: Final = {errno.ENOMEM, errno.EFBIG, errno.EINVAL, errno.EAGAIN}
#: Where address space is limited (``ulimit -v``), an arena takes this share of what is left. Nobody knows how many are
#: to come, nor what else needs some: each leaves 15/16 to those after it, and 16 pairs still leave an eighth.
_SHARE: Final = 16
#: Then it may be as small as this. Below, there is none, and what is left is for everything else.
_LEAST_SHARE: Final = 1 << 20


class Arena:
    """Shared memory for one direction between two processes, before it is opened on either side.

    Picklable only as an argument of a process that is being started.

    Args:
        limit: Most bytes that are in it at a time. Where the process may only map so much (``ulimit -v``), at most a
            share of what is left of that; where the system refuses it (``ulimit -f``), half of it, and so on.

    Raises:
        OSError: There is no shared memory, or no descriptor, to be had.
        ValueError: ``limit`` is not positive.
    """

    def __init__(self, limit: int) -> None:
        if limit <= 0:
            raise ValueError(f"limit must be > 0, got {limit}")
        self._fd = -1  # of an arena that has arrived and was not mapped
        self._mapped: Area | None = _make_area(limit)

    @property
    def limit(self) -> int:
        """Most bytes that are in it at a time."""
        return self._area.num_bytes

    def open_sender(self) -> ArenaSender:
        """The sending side. Once, in the process that sends.

        Raises:
            OSError: This process may not map so much: see ``lacks_memory``. Nothing need be sent this way.
        """
        return ArenaSender(self._area.for_this_process())

    def open_receiver(self) -> ArenaReceiver:
        """The receiving side, in the other process.

        Raises:
            OSError: This process may not map so much: see ``lacks_memory``. Then ``open_reader``.
        """
        return ArenaReceiver(self._area.for_this_process())

    def open_reader(self) -> ReadingReceiver:
        """The receiving side for a process that may not map the arena."""
        return ReadingReceiver(self._file())

    def close(self) -> None:
        """Close this process's descriptor. Idempotent. What was opened, and views of it, go on working."""
        if self._mapped is not None:
            self._mapped.close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    @property
    def _area(self) -> Area:
        if self._mapped is None:
            self._mapped = Area.attach(self._file())
            os.close(self._fd)
            self._fd = -1
        return self._mapped

    def _file(self) -> int:
        """Another descriptor of the file, which the caller owns."""
        return os.dup(self._fd if self._mapped is None else self._mapped.fd)

    def __getstate__(self) -> Any:
        return pass_descriptors(self, self._area)

    def __setstate__(self, state: Any) -> None:
        # Mapped when it is opened, by whoever can tell what to do if that fails.
        (fd,) = state
        self._fd = fd.detach()
        self._mapped = None


class ArenaSender:
    """The sending side of an arena: a ``Store``, which has memory for what is still to be made as well.

    Safe to use from several threads. In the child of a fork it never has room: the memory is the parent's.
    """

    def __init__(self, area: Area) -> None:
        self._area = area
        self._sender = Sender(area)

    def put(self, buffers: Sequence[Any]) -> list[tuple[int, int, int]] | None:
        """Copy buffers to the arena, without the GIL if they are large. What lies in a slot stays where it is.

        Args:
            buffers: Contiguous buffers: ``pickle.PickleBuffer``, for example.

        Returns:
            For each its block, offset and size in bytes; ``None``, and nothing is put, if there is no room.
        """
        return self._sender.put(buffers)

    def take_back(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """What was put will not be sent after all."""
        self._sender.take_back(spans)

    def slot(self, num_bytes: int) -> memoryview | None:
        """Memory in the arena for what is still to be made, aligned to 64 bytes; ``None`` if there is no room.

        What is put of it later is not copied, so it must not be changed after that. It goes back when the last view of
        it on this side is gone and the other side has dropped whatever was sent of it.
        """
        slot = self._sender.slot(num_bytes)
        return None if slot is None else memoryview(slot)

    def trim(self) -> None:
        """Give the memory of all that is free back to the system; useful before a long pause."""
        self._sender.trim()

    def close(self) -> None:
        """Close its descriptor. Idempotent. There is no room from now on; slots, and what was sent, stay valid."""
        self._sender.close()

    @property
    def num_bytes_used(self) -> int:
        """Bytes of what is in the arena now, rounded up for alignment."""
        return self._sender.num_bytes_used

    @property
    def num_bytes_reserved(self) -> int:
        """Bytes of the machine's memory that the arena takes, whether used or not."""
        return self._sender.num_bytes_reserved

    @property
    def limit(self) -> int:
        """Most bytes that are in it at a time."""
        return self._area.num_bytes


class ArenaReceiver:
    """The receiving side of an arena: a ``Receiver``. Safe to use from several threads."""

    #: Bytes that were sent come back as bytes, which is a copy: most code cannot do with anything else.
    bytes_as_views = False

    def __init__(self, area: Area) -> None:
        self._area = area

    def get(self, spans: Sequence[tuple[int, int, int]]) -> list[View]:
        """A writable buffer of bytes for each span, in place.

        The memory goes back when the last view of it is gone: on any thread, also when this is long closed. Views that
        a fork copied do not count.

        Raises:
            ValueError: It is no span of this arena.
        """
        return self._area.get(spans)

    def drop(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """Give back the memory of a message that nobody will look at."""
        self._area.drop(spans)

    def close(self) -> None:
        """Nothing to do: the memory stays mapped until this and all views are gone."""


class ReadingReceiver:
    """The receiving side where there is no address space for the arena: a ``Receiver`` whose buffers are copies.

    Args:
        fd: Of the arena's file. Taken over.
    """

    bytes_as_views = False

    def __init__(self, fd: int) -> None:
        self._fd = os.dup(fd)
        try:
            self._area = Area.attach(fd, maps_data=False)
        except BaseException:
            os.close(self._fd)
            raise

    def get(self, spans: Sequence[tuple[int, int, int]]) -> list[bytearray]:
        """A copy of each span. The memory goes back at once."""
        buffers = []
        try:
            for _, offset, size in spans:
                buffer = bytearray(size)
                with memoryview(buffer) as rest:
                    done = 0
                    while done < size:
                        done += os.preadv(self._fd, [rest[done:]], self._area.data_offset + offset + done)
                buffers.append(buffer)
        finally:
            self._area.drop(spans)
        return buffers

    def drop(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """Give back the memory of a message that nobody will look at."""
        self._area.drop(spans)

    def close(self) -> None:
        """Close its descriptors. Idempotent."""
        self._area.close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def lacks_memory(error: OSError) -> bool:
    """The system refuses so much memory or address space: an arena is done without, everything else is as usual."""
    return error.errno in _TOO_LARGE


def _make_area(limit: int) -> Area:
    num_bytes, least = limit, min(limit, _LEAST)
    room = _address_room()
    if room is not None and room // _SHARE < num_bytes:
        least = min(limit, _LEAST_SHARE)
        num_bytes = max(room // _SHARE, least)
    while True:
        try:
            if room is not None and num_bytes > room // _SHARE:
                raise OSError(errno.ENOMEM, f"only {room} bytes of address space are left")
            return Area(num_bytes, _NUM_BLOCKS, has_bell=False)
        except OSError as exc:
            if exc.errno not in _TOO_LARGE or num_bytes <= least:
                what = f"while making shared memory of {num_bytes} bytes to send objects to another process"
                add_note(exc, what)
                raise
        num_bytes = max(num_bytes // 2, least)


# -- to a new process


def pass_descriptors(owner: object, area: Area) -> Any:
    """What ``take_descriptors`` makes the same area of in a process that is being started.

    Raises:
        RuntimeError: None is being started.
    """
    from multiprocessing import context, reduction

    context.assert_spawning(owner)
    bell = area.bell
    descriptors = [area.fd] if bell is None else [area.fd, *dict.fromkeys(bell)]
    return [reduction.DupFd(fd) for fd in descriptors]


def take_descriptors(state: Any) -> Area:
    fd, *bell = [each.detach() for each in state]
    return Area.attach(fd, (bell[0], bell[-1]) if bell else None)


# -- how much


def default_limit() -> int:
    """Most bytes in an arena, unless the user says: a quarter of the memory that is free, from 64 MiB to 8 GiB."""
    return max(_LEAST, min(_MOST, _available_memory() // 4))


def _address_room() -> int | None:
    """Bytes of address space that this process may still map; ``None``: no limit that it could know of."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return None
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError, AttributeError):
        return None
    return max(0, limit - used)


def _available_memory() -> int:
    """Bytes that this process could still get: what the machine has free, and its control group's limit leaves."""
    return min([_free_memory(), *_room_in_groups()])


def _free_memory() -> int:
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 * _LEAST


def _room_in_groups() -> list[int]:
    """For each control group above this process that has a limit, what is left of it. Versions 1 and 2."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            root, limit_name, used_name = "/sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit_name, used_name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        folders = [part for part in path.split("/") if part and part != ".."]
        # In a container the path may be the host's, and only the root be there.
        for depth in range(len(folders) + 1):
            folder = "/".join([root, *folders[:depth]])
            room = _room_in(folder, limit_name, used_name)
            if room is not None:
                found.append(room)
    return found


def _room_in(folder: str, limit_name: str, used_name: str) -> int | None:
    try:
        with open(f"{folder}/{limit_name}") as file:
            limit = int(file.read())  # "max" is no number: there is none
        with open(f"{folder}/{used_name}") as file:
            used = int(file.read())
        with open(f"{folder}/memory.stat") as file:
            stat = dict(line.split()[:2] for line in file)
    except (OSError, ValueError):
        return None
    # Pages of files are counted as used, and given up when memory is needed.
    droppable = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
    return max(0, limit - max(0, used - droppable))


# -- the arena through which this process sends


class _Current:
    """The sender of this process; one place to look it up. A worker's main sets it before any op runs."""

    sender: ArenaSender | None = None


def set_current(sender: ArenaSender | None) -> None:
    """Have ``arena_slot`` give memory of this sender; ``None``: plain memory."""
    _Current.sender = sender


def arena_slot(num_bytes: int) -> memoryview:
    """Writable memory for a batch that another process will get: written there, it is sent without a copy.

    In a worker it is shared memory, as long as there is room; elsewhere it is plain memory, so that code works the same
    in either. ``load_image_batch(srcs, out=arena_slot(n))``, or ``np.frombuffer(arena_slot(n), dtype)``, puts a batch
    in it.

    Args:
        num_bytes: Its size.

    Returns:
        One-dimensional, of format ``B``, with undefined contents. Where shared, it is aligned to 64 bytes. Once what
        lies in it was yielded or returned, it must not be changed: the receiver reads the same memory.

    Raises:
        ValueError: ``num_bytes`` is negative.
    """
    if num_bytes < 0:
        raise ValueError(f"num_bytes must be >= 0, got {num_bytes}")
    sender = _Current.sender
    slot = sender.slot(num_bytes) if sender is not None else None
    return slot if slot is not None else memoryview(bytearray(num_bytes))
