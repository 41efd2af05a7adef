"""Objects taken apart and put together again are equal, and what is large does not go through the pickle stream."""

import pickle
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdl._processes._transport._pickling import LARGE, NOTHING, Encoder, Form, decode, encode

LARGE_BYTES = bytes(range(256)) * 64


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Record:
    name: str
    data: Any
    more: list[Any] = field(default_factory=list)


class Hooked:
    """Does not pickle, but crosses."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("Hooked does not pickle")

    def __reduce_transport__(self) -> Any:
        return _make_hooked, (pickle.PickleBuffer(self.data),)


def _make_hooked(data: Any) -> Hooked:
    return Hooked(data)


def cross(value: Any, encoder: Encoder | None = None, *, bytes_as_views: bool = False) -> Any:
    """Through the head and copies of the buffers, as between two processes."""
    encoded = (encoder or Encoder()).encode(value)
    buffers = [bytearray(pickle.PickleBuffer(each).raw()) for each in encoded.buffers]
    return decode(encoded.form, encoded.head, buffers, encoded.num_deep, bytes_as_views=bytes_as_views)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
sizes = st.sampled_from([0, 1, LARGE - 1, LARGE, LARGE + 1, 5 * LARGE])
leaves = (
    scalars
    | sizes.map(lambda n: b"x" * n)
    | sizes.map(lambda n: bytearray(b"y" * n))
    | sizes.map(lambda n: np.arange(n).astype("u1").tobytes())
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Record, st.text(max_size=3), inner, st.lists(inner, max_size=2))
    ),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.lists(values, min_size=1, max_size=4))
def test_what_crosses_is_equal(items: list[Any]) -> None:
    """Whatever came before, an object arrives with its types and values."""
    encoder = Encoder()
    for item in items:
        arrived = cross(item, encoder)
        assert arrived == item
        assert pickle.dumps(arrived) == pickle.dumps(pickle.loads(pickle.dumps(item)))


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_at_the_top_are_not_pickled(kind: type) -> None:
    """The object is its buffer."""
    encoded = encode(kind(LARGE_BYTES))
    assert encoded.head == b""
    assert encoded.buffers[0] == LARGE_BYTES
    assert type(cross(kind(LARGE_BYTES))) is kind


def test_bytes_inside_are_found() -> None:
    """From the first large stream on, bytes in containers stay out of it; one object stays one."""
    encoder = Encoder()
    item = {"image": LARGE_BYTES, "again": [LARGE_BYTES], "size": 3}
    for _ in range(3):
        encoded = encoder.encode(item)
        assert len(encoded.head) < 200
        assert encoded.num_deep == 1
        arrived = cross(item, encoder)
        assert arrived == item
        assert arrived["image"] is arrived["again"][0]


def test_a_search_in_vain_is_not_repeated_for_each() -> None:
    """Large streams of small things are pickled once."""
    encoder = Encoder()
    calls = []

    class Watched:
        def __reduce__(self) -> Any:
            calls.append(1)
            return (str, ())

    item = [Watched(), *range(20000)]
    for _ in range(10):
        encoder.encode(item)
    assert len(calls) == 11


def test_bytes_may_arrive_as_views() -> None:
    """As the segment pool wants it: writable, without a copy, also inside of containers."""
    arrived = cross([LARGE_BYTES, bytearray(LARGE_BYTES)], Encoder(thorough=True), bytes_as_views=True)
    assert [type(each) for each in arrived] == [memoryview, memoryview]
    assert all(each == LARGE_BYTES and not each.readonly for each in arrived)
    assert type(cross(LARGE_BYTES, bytes_as_views=True)) is memoryview


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "f2", "f8", "c16", "?", "U7", "S5"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_cross_without_copies(dtype: str, order: Any) -> None:
    """Their memory is a buffer, and they are views of what arrives."""
    array = np.asarray(np.zeros((40, 130, 2), dtype=dtype), order=order)
    encoded = encode({"a": array})
    assert len(encoded.buffers) == 1
    assert np.shares_memory(np.frombuffer(encoded.buffers[0].raw(), "u1"), array.reshape(-1, order=order).view("u1"))
    for arrived in (cross({"a": array})["a"], cross(array)):
        assert arrived.dtype == array.dtype
        assert arrived.strides == array.strides
        assert not arrived.flags.owndata
        assert arrived.flags.writeable
        np.testing.assert_array_equal(arrived, array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(90000).reshape(300, 300)[::2, ::3],
        np.arange(0),
        np.float32(3),
        np.array(5),
        np.array([None, {"a": 1}], dtype=object),
        np.zeros((0, 1000, 1000)),
        np.arange(3000).astype("M8[s]"),
        np.zeros(3000, dtype=[("a", "i4"), ("b", "f8")]),
    ],
    ids=["strided", "empty", "scalar", "0-d", "object", "empty-3d", "times", "structured"],
)
def test_odd_arrays_cross(array: Any) -> None:
    """What offers no contiguous memory goes as pickle does it."""
    for arrived in (cross([array])[0], cross(array)):
        assert arrived.dtype == array.dtype
        assert arrived.shape == array.shape
        np.testing.assert_array_equal(arrived, array)


@pytest.mark.parametrize("dtype", ["f8", "M8[s]", "U9", [("a", "i4"), ("b", "f8")]])
@pytest.mark.parametrize("size", [0, 3, 10000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_read_only_arrays_arrive_writable(dtype: Any, size: int, order: Any) -> None:
    """As from a worker of torch's ``DataLoader``, in containers and alone: nobody else has this memory."""
    array = np.zeros((size, 2), dtype, order=order)
    array.flags.writeable = False
    for arrived in (cross([array])[0], cross(array)):
        assert arrived.flags.writeable
        assert arrived.flags.f_contiguous == array.flags.f_contiguous
        arrived[...] = array
    assert cross(np.zeros(10000)).flags.writeable


@pytest.mark.parametrize(
    "view",
    [
        memoryview(LARGE_BYTES),
        memoryview(bytearray(LARGE_BYTES)),
        memoryview(LARGE_BYTES).cast("H", (64, 128)),
        memoryview(LARGE_BYTES)[::2],
        memoryview(b""),
        memoryview(b"abc")[::-1],
    ],
    ids=["bytes", "bytearray", "shaped", "strided", "empty", "small-reversed"],
)
def test_memoryviews_cross(view: memoryview) -> None:
    """Plain pickle refuses them; format, shape and contents stay."""
    arrived = cross([view])[0]
    assert type(arrived) is memoryview
    assert (arrived.format, arrived.shape, arrived.tolist()) == (view.format, view.shape, view.tolist())
    assert arrived.readonly or not view.readonly


class Restored:
    """Restores itself from bytes, and nothing else."""

    def __init__(self) -> None:
        self.data = LARGE_BYTES

    def __reduce__(self) -> Any:
        return _make_restored, (self.data,)


def _make_restored(data: bytes) -> Restored:
    assert type(data) is bytes
    return Restored()


def test_for_explicit_arenas_the_first_item_is_searched_as_the_last() -> None:
    """What comes back does not depend on what came before; only leaves of containers become views."""
    leaf = bytes(LARGE)
    for item in ([leaf], {"a": (leaf, 1)}, Record("r", leaf), Pair(1, [leaf])):
        encoded = Encoder(thorough=True).encode(item)
        assert encoded.num_deep == 1
    arrived = cross([leaf, Restored()], Encoder(thorough=True), bytes_as_views=True)
    assert [type(each) for each in arrived] == [memoryview, Restored]


@pytest.mark.parametrize("kind", ["array", "times", "text", "view"])
def test_for_explicit_arenas_what_is_read_only_arrives_writable(kind: str) -> None:
    """It is memory of the receiver's own."""
    given: Any = {
        "array": np.frombuffer(LARGE_BYTES, "f4"),
        "times": np.frombuffer(LARGE_BYTES, "M8[s]"),
        "text": np.arange(6000).astype("U5")[::2],
        "view": memoryview(LARGE_BYTES),
    }[kind]
    [arrived] = cross([given], Encoder(thorough=True), bytes_as_views=True)
    if kind == "view":
        assert not arrived.readonly
        assert arrived == given
    else:
        assert arrived.flags.writeable
        assert arrived.dtype == given.dtype
        np.testing.assert_array_equal(arrived, given)


def test_a_class_may_cross_in_its_own_way() -> None:
    """``__reduce_transport__`` is asked before pickle's own methods, at any depth."""
    arrived = cross({"a": [Hooked(bytearray(LARGE_BYTES))]})["a"][0]
    assert type(arrived) is Hooked
    assert bytes(arrived.data) == LARGE_BYTES


def test_nothing_is_not_none() -> None:
    """A frame without a payload and one with ``None``."""
    assert encode(NOTHING).form is Form.NOTHING
    assert cross(NOTHING) is NOTHING
    assert cross(None) is None


def test_what_does_not_pickle_raises() -> None:
    """Whatever pickle raises arrives as it is."""
    with pytest.raises((pickle.PicklingError, AttributeError)):
        encode(lambda: None)


@pytest.mark.parametrize("kind", [OrderedDict, defaultdict])
def test_dicts_keep_their_class(kind: Any) -> None:
    """With large contents too."""
    item = kind()
    item["a"] = LARGE_BYTES
    assert type(cross(item)) is kind
