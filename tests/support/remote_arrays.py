"""Items with large buffers, made in another process as in this one, and where their memory lies."""

import collections
import dataclasses
import os
import resource
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl import pipeline

__all__ = ["ARRAYS", "OBJECTS", "Labelled", "Pair", "Reduced", "large", "place_of"]

LARGE = 300_000


def large(dtype: Any = np.uint8, num_bytes: int = LARGE) -> Any:
    """Bytes 0 … 255 over and over, as that dtype."""
    dtype = np.dtype(dtype)
    return np.resize(np.arange(256, dtype=np.uint8), num_bytes // dtype.itemsize * dtype.itemsize).view(dtype)


def read_only() -> Any:
    array = large()
    array.flags.writeable = False
    return array


def objects() -> Any:
    array = np.empty(3, object)
    array[:] = ["one", large(), None]
    return array


RECORD = np.dtype([("index", "<i4"), ("weight", ">f8"), ("name", "S3"), ("box", "u1", (2, 2))])

#: By name, how each is made; made anew for every process.
ARRAYS: dict[str, Callable[[], Any]] = {
    **{
        f"dtype {dtype}": partial(large, dtype)
        for dtype in (
            "?",
            "i1",
            "u1",
            "<i2",
            ">i2",
            "u4",
            "i8",
            ">u8",
            "f2",
            "f4",
            ">f4",
            "f8",
            "c8",
            "c16",
            "S7",
            "V5",
        )
    },
    "dtype bool of bits": lambda: large() % 2 == 0,
    "dtype datetime": lambda: large("i8").view("M8[ms]"),
    "dtype timedelta": lambda: large("i8").view("m8[D]"),
    "dtype unicode": lambda: np.resize(np.array(["one", "two", "drei"]), 30_000),
    "dtype record": lambda: np.zeros(20_000, RECORD),
    "dtype object": objects,
    "order C": lambda: large("f4").reshape(25, 30, 100),
    "order F": lambda: np.asfortranarray(large("f4").reshape(25, 30, 100)),
    "order transposed": lambda: large("f4").reshape(25, 30, 100).transpose(1, 2, 0),
    "strides every third": lambda: large()[::3],
    "strides backwards": lambda: large("i4")[::-1],
    "strides column": lambda: large("i4").reshape(250, 300)[:, 7],
    "strides window": lambda: large("i4").reshape(250, 300)[10:240, 20:290],
    "strides broadcast": lambda: np.broadcast_to(large("i4")[:500], (300, 500)),
    "strides diagonal": lambda: large("i4")[:62_500].reshape(250, 250).diagonal(),
    "read-only": read_only,
    "view of few of many": lambda: large(num_bytes=3_000_000)[10:20],
    "size 0-d": lambda: np.array(3.5),
    "size empty": lambda: np.empty((0, 3, 224), np.float32),
    "size one": lambda: np.array([7], np.uint8),
    "size 4095": lambda: large(num_bytes=4095),
    "size 4096": lambda: large(num_bytes=4096),
    "size 4097": lambda: large(num_bytes=4097),
    "size of a page, less one": lambda: large(num_bytes=65_535),
    "size 20 MB": lambda: large("f4", 20_000_000),
    "class masked": lambda: np.ma.masked_greater(large("i4"), 100),
    "class record": lambda: np.rec.array(np.zeros(20_000, RECORD)),
    "scalar": lambda: np.float32(2.5),
}


class Pair(NamedTuple):
    image: Any
    label: int


@dataclasses.dataclass
class Labelled:
    """What a batch often is."""

    images: Any
    labels: list[int]
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    data: Any


class Reduced:
    """Pickles by a method of its own, with a large argument."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduced, (self.data,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reduced) and bool(np.all(self.data == other.data))

    __hash__ = None  # type: ignore[assignment]  # its data has none


class Stateful:
    """Pickles by its state."""

    def __init__(self) -> None:
        self.data = bytearray(b"state" * 20_000)
        self.secret = 5

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stateful) and vars(self) == {**vars(other), "secret": 5}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, secret=5)

    __hash__ = None  # type: ignore[assignment]  # its data has none


def cyclic() -> Any:
    items: list[Any] = [b"x" * 10_000]
    items.append(items)
    return items


BYTES = bytes(range(256)) * 1000

#: What is compared with ``==``; types too.
OBJECTS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: BYTES,
    "bytes, few": lambda: b"few",
    "bytes, none": lambda: b"",
    "bytearray": lambda: bytearray(BYTES),
    "bytearray, empty": lambda: bytearray(),
    "str": lambda: "größer als 4096 " * 20_000,
    "str of surrogates": lambda: "\ud800" * 5000,
    "int, huge": lambda: 3**200_000,
    "dict": lambda: {"image": BYTES, b"key": [BYTES, {"deep": (BYTES, None)}], 5: {1, 2}},
    "tuple": lambda: (BYTES, (bytearray(BYTES),), [], ()),
    "named tuple": lambda: Pair(BYTES, 3),
    "dataclass": lambda: Labelled(BYTES, [1, 2], {"more": bytearray(BYTES)}),
    "frozen dataclass": lambda: Frozen(BYTES),
    "deque": lambda: collections.deque([BYTES, BYTES], maxlen=4),
    "default dict": lambda: collections.defaultdict(list, {"a": [BYTES]}),
    "ordered dict": lambda: collections.OrderedDict(b=BYTES, a=1),
    "__reduce__ with bytes": lambda: Reduced(BYTES),
    "__reduce__ with an array": lambda: Reduced(large("i4")),
    "__getstate__": Stateful,
    "many small": lambda: [{"index": k, "name": f"item {k}"} for k in range(3000)],
    "many large": lambda: [bytes([k % 256]) * 5000 for k in range(1000)],
    "exception": lambda: ("text", ValueError),
    "None": lambda: None,
    "nothing but None": lambda: [None] * 5,
}


class Made:
    """What functions make, one item each, anew in each iteration."""

    def __init__(self, makers: str, names: list[str]) -> None:
        self.makers, self.names = makers, names

    def __iter__(self) -> Iterator[Any]:
        makers = globals()[self.makers]
        return (makers[name]() for name in self.names)


def reusing_its_buffer(num_items: int) -> Iterator[NDArray[np.uint8]]:
    """One array over and over, overwritten as soon as it has been handed over."""
    array = np.empty(100_000, np.uint8)
    for k in range(num_items):
        array[:] = k
        yield array


def reusing_its_list(num_items: int) -> Iterator[list[bytearray]]:
    """One list of one bytearray over and over."""
    data = bytearray(10_000)
    items = [data]
    for k in range(num_items):
        data[:] = bytes([k]) * 10_000
        yield items


def shared_twice() -> Iterator[Any]:
    """One array, one bytearray, one list, each more than once in one item."""
    array, data, items = large("i4"), bytearray(BYTES), [1, 2]
    yield [array, {"again": array}, data, (data,), items, items]


class Batches:
    """Arrays of ``num_bytes`` bytes that hold their number; iterable anew."""

    def __init__(self, num_items: int, num_bytes: int = LARGE) -> None:
        self.num_items, self.num_bytes = num_items, num_bytes

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (np.full(self.num_bytes, k % 251, np.uint8) for k in range(self.num_items))


def batches_then_memory(num_items: int, num_bytes: int) -> Iterator[Any]:
    """Arrays; last, the bytes that this process needed at most beyond what it began with."""
    before = peak_memory()
    for k in range(num_items):
        yield np.full(num_bytes, k % 251, np.uint8)
    yield peak_memory() - before


def peak_memory() -> int:
    """Most bytes that this process has held, those that are shared included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory() -> int:
    """Bytes that this process holds, those that are shared included. Linux."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def place_of(array: NDArray[Any]) -> tuple[int, int]:
    """Where an array lies, as every process that maps it would say: the inode, and the position in it. Linux."""
    address = array.ctypes.data
    with open("/proc/self/maps") as file:
        for line in file:
            span, _, offset, _, inode = line.split()[:5]
            start, stop = (int(part, 16) for part in span.split("-"))
            if start <= address < stop:
                return int(inode), int(offset, 16) + address - start
    raise LookupError(hex(address))


class Born:
    """Arrays that are written into slots of the arena, with where they lie; iterable anew."""

    def __init__(self, num_items: int, num_bytes: int = LARGE) -> None:
        self.num_items, self.num_bytes = num_items, num_bytes

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], tuple[int, int]]]:
        for k in range(self.num_items):
            array = np.frombuffer(pipeline.arena_slot(self.num_bytes), np.uint8)
            array[:] = k % 251
            yield array, place_of(array)


def born_once() -> Iterator[NDArray[np.uint8]]:
    """Two items that view one slot, which nobody here holds when they are read; then a third, elsewhere."""
    array = np.frombuffer(pipeline.arena_slot(200_000), np.uint8)
    array[:100_000], array[100_000:] = 1, 2
    yield array[:100_000]
    yield array[100_000:]
    del array
    yield np.frombuffer(pipeline.arena_slot(200_000), np.uint8)


def slots(sizes: list[int]) -> Iterator[Any]:
    """Bytes of slots as they are, with what they are like."""
    for size in sizes:
        slot = pipeline.arena_slot(size)
        address = np.frombuffer(slot, np.uint8).ctypes.data if size else 0
        yield slot.nbytes, slot.format, slot.readonly, slot.ndim, slot.contiguous, address % 64
        slot[:] = b"s" * size
        yield slot


def born_as_batch(item: int) -> Any:
    """An op that writes its batch into the arena."""
    batch = np.frombuffer(pipeline.arena_slot(LARGE), np.uint8)
    batch[:] = item
    return batch, place_of(batch)


def total(array: Any) -> int:
    return int(array.sum(dtype=np.int64))


def keep_and_sum(array: Any) -> tuple[int, int]:
    """Holds what it gets for ever, and looks at it again each time."""
    _kept.append(array)
    return len(_kept), sum(int(each[0]) for each in _kept)


_kept: list[Any] = []


def of_sizes(sizes: list[int]) -> Iterator[NDArray[np.uint8]]:
    for size in sizes:
        yield np.full(size, size % 251, np.uint8)


def labelled() -> Iterator[Labelled]:
    yield Labelled(large("f4"), [1, 2], {"deep": [large("f4")]})


def check_same(array: Any, expected: Any) -> None:
    """Same type, dtype, shape and values."""
    assert type(array) is type(expected)
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    if expected.dtype == object:
        assert array[0] == expected[0]
        assert array[2] is None
        check_same(array[1], expected[1])
    elif expected.dtype.kind in "fc":
        np.testing.assert_array_equal(array, expected)
    else:
        assert array.tobytes() == expected.tobytes()
