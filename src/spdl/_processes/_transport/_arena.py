"""The automatic arena: shared memory for sending from one process to another, which adapts its size.

The memory is anonymous. It has its full size from the beginning but takes memory only as it is used, so nothing is
mapped and no descriptor is sent after the start. Each sent buffer gets a block, and is read in place; the block is free
again when the last view of it is gone, in whichever process that is. Only the sender allocates, so the two processes
never wait for each other, and either may be killed at any moment: the memory is freed with the last process that has it
mapped. If there is no room, the sender uses another way.

See ``native/shared/sender.h`` for how memory is reserved, reused and released, and ``native/shared/area.h`` for the
state that both sides share.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from spdl._processes._memory import Area, Sender, View
from spdl._reports import add_note

#: Most buffers in the arena at a time.
_NUM_BLOCKS: Final = 16384
_MOST: Final = 8 << 30
_LEAST: Final = 64 << 20
#: Errors when the system refuses this much address space or this large a file: a smaller arena is tried, because the
#: limit is only an upper bound.
_TOO_LARGE: Final = {errno.ENOMEM, errno.EFBIG, errno.EINVAL, errno.EAGAIN}
#: If address space is limited (``ulimit -v``), an arena takes this share of the rest. How many more arenas there will
#: be and what else needs address space is unknown: each leaves 15/16 to the next ones, and 16 pairs still leave an
#: eighth.
_SHARE: Final = 16
#: The smallest arena in that case. Below this there is none, and the rest is left for everything else.
_LEAST_SHARE: Final = 1 << 20


class Arena:
    """Shared memory for one direction between two processes, before it is opened on either side.

    Picklable only as an argument of a process that is being started.

    Args:
        limit: Most bytes in it at a time. If address space is limited (``ulimit -v``), at most a share of the rest; if
            the system refuses the size (``ulimit -f``), half of it, and so on.

    Raises:
        OSError: There is no shared memory or no descriptor left.
        ValueError: ``limit`` is not positive.
    """

    def __init__(self, limit: int) -> None:
        if limit <= 0:
            raise ValueError(f"limit must be > 0, got {limit}")
        self._fd = -1  # of an arena that has arrived but is not mapped yet
        self._mapped: Area | None = _make_area(limit)

    @property
    def limit(self) -> int:
        """Most bytes that are in it at a time."""
        return self._area.num_bytes

    def open_sender(self) -> ArenaSender:
        """Open the sending side: once, in the process that sends.

        Raises:
            OSError: This process cannot map this much: see ``lacks_memory``. Send another way then.
        """
        return ArenaSender(self._area.for_this_process())

    def open_receiver(self) -> ArenaReceiver:
        """Open the receiving side, in the other process.

        Raises:
            OSError: This process cannot map this much: see ``lacks_memory``. Use ``open_reader`` then.
        """
        return ArenaReceiver(self._area.for_this_process())

    def open_reader(self) -> ReadingReceiver:
        """Open the receiving side for a process that cannot map the arena."""
        return ReadingReceiver(self._file())

    def close(self) -> None:
        """Close this process's descriptor. Idempotent. Opened sides and views stay valid."""
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
        """Return a duplicate descriptor of the file, owned by the caller."""
        return os.dup(self._fd if self._mapped is None else self._mapped.fd)

    def __getstate__(self) -> Any:
        return pass_descriptors(self, self._area)

    def __setstate__(self, state: Any) -> None:
        # It is mapped when it is opened, where the caller can handle a failure.
        (fd,) = state
        self._fd = fd.detach()
        self._mapped = None


class ArenaSender(Sender):
    """The sending side of an arena: a ``Store`` that can also provide memory in advance (slots).

    Thread-safe. Copies without the GIL if buffers are large. In a forked child it never has room: the memory belongs to
    the parent.
    """

    if TYPE_CHECKING:  # of any objects with the buffer protocol, which stubs of arrays may not tell

        def put(self, buffers: Sequence[Any]) -> list[tuple[int, int, int]] | None: ...

    def slot(self, num_bytes: int) -> memoryview | None:  # type: ignore[override]  # what native code gives is one, untyped
        """Memory in the arena to fill in place, aligned to 64 bytes; ``None`` if there is no room.

        Putting parts of it does not copy, so do not change it after that. It is freed when the last view on this side
        is gone and the other side has dropped everything that was sent from it.
        """
        slot = super().slot(num_bytes)
        return None if slot is None else memoryview(slot)


class ArenaReceiver:
    """The receiving side of an arena: a ``Receiver``. Thread-safe."""

    #: Sent ``bytes`` arrive as ``bytes``, which is a copy, because most code needs that type.
    bytes_as_views = False

    def __init__(self, area: Area) -> None:
        self._area = area

    def get(self, spans: Sequence[tuple[int, int, int]]) -> list[View]:
        """Return a writable buffer of bytes for each span, in place.

        The memory is freed when the last view of it is gone, on any thread, even after this is closed. Copies of views
        in a forked child do not count.

        Raises:
            ValueError: A span is not in this arena.
        """
        return self._area.get(spans)

    def drop(self, spans: Sequence[tuple[int, int, int]]) -> None:
        """Free the memory of a message that will not be read."""
        self._area.drop(spans)

    def close(self) -> None:
        """Do nothing: the memory stays mapped until this object and all views are gone."""


class ReadingReceiver:
    """The receiving side without address space for the arena: a ``Receiver`` whose buffers are copies.

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
        """Return a copy of each span. Its memory is freed at once."""
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
        """Free the memory of a message that will not be read."""
        self._area.drop(spans)

    def close(self) -> None:
        """Close its descriptors. Idempotent."""
        self._area.close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def lacks_memory(error: OSError) -> bool:
    """Whether the system refuses this much memory or address space. Then there is no arena; everything else works."""
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
    """Return what ``take_descriptors`` needs to open the same area in a process that is being started.

    Raises:
        RuntimeError: No process is being started.
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
    """Default limit of an arena: a quarter of the free memory, from 64 MiB to 8 GiB."""
    return max(_LEAST, min(_MOST, _available_memory() // 4))


def _address_room() -> int | None:
    """Bytes of address space that this process can still map; ``None``: no known limit."""
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
    """Bytes that this process can still get: the free memory of the machine, within the limit of its control group."""
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
    """The rest of the limit of each control group above this process that has one. Versions 1 and 2."""
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
        # In a container the path may be the host's, and only the root may be visible.
        for depth in range(len(folders) + 1):
            folder = "/".join([root, *folders[:depth]])
            room = _room_in(folder, limit_name, used_name)
            if room is not None:
                found.append(room)
    return found


def _room_in(folder: str, limit_name: str, used_name: str) -> int | None:
    try:
        with open(f"{folder}/{limit_name}") as file:
            limit = int(file.read())  # "max" is not a number: no limit
        with open(f"{folder}/{used_name}") as file:
            used = int(file.read())
        with open(f"{folder}/memory.stat") as file:
            stat = dict(line.split()[:2] for line in file)
    except (OSError, ValueError):
        return None
    # File pages count as used, but are released when memory is needed.
    droppable = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
    return max(0, limit - max(0, used - droppable))


# -- the arena through which this process sends


class _Current:
    """The sender of this process. A worker's main function sets it before any op runs."""

    sender: ArenaSender | None = None


def set_current(sender: ArenaSender | None) -> None:
    """Make ``arena_slot`` return memory of this sender; ``None``: plain memory."""
    _Current.sender = sender


def arena_slot(num_bytes: int) -> memoryview:
    """Return writable memory for a batch to send to another process without a copy.

    In a worker it is shared memory, as long as there is room; elsewhere it is plain memory, so the same code works in
    both. Use it as ``load_image_batch(srcs, out=arena_slot(n))`` or ``np.frombuffer(arena_slot(n), dtype)``.

    Args:
        num_bytes: Size in bytes.

    Returns:
        A one-dimensional view of format ``B``, with undefined contents. Shared memory is aligned to 64 bytes. Do not
        change it after yielding or returning its contents: the receiver reads the same memory.

    Raises:
        ValueError: ``num_bytes`` is negative.
    """
    if num_bytes < 0:
        raise ValueError(f"num_bytes must be >= 0, got {num_bytes}")
    sender = _Current.sender
    slot = sender.slot(num_bytes) if sender is not None else None
    return slot if slot is not None else memoryview(bytearray(num_bytes))
