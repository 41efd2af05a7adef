"""Buffers and packets in pickles, with their memory beside them: what they are afterwards, and what keeps what."""

import array
import copy
import gc
import io
import mmap
import multiprocessing
import pickle
import weakref
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io import ImageTransform, RandomResizedCrop, load_image_batch
from tests.io.crossing import apart, crossed, is_held, mapped
from tests.io.pictures import make_jpeg
from tests.io.raw import noise
from tests.support.media import clip, pictures, tones

TYPES = {"|u1": np.uint8, "<u2": np.uint16, "<i2": np.int16, "<i4": np.int32, "<i8": np.int64, "<f2": np.float16,
         "<f4": np.float32, "<f8": np.float64}  # fmt: skip


def buffer_of(values: Any) -> Any:
    """A CPUBuffer with these elements, in memory of its own."""
    from spdl.io._native import core

    made = core.new_buffer(values.shape, values.dtype.str, None)
    np.asarray(made)[...] = values
    return made


def failing_batch(source: Any) -> Any:
    """A batch that lacks one image."""
    return load_image_batch([make_jpeg(64, 48), source], width=16, height=12, strict=False)


# ------------------------------------------------------------------------------------------------------------ buffers


@pytest.mark.parametrize("shape", [(2, 3, 5), (), (0, 4), (1,), (7, 1, 1, 1, 2)])
@pytest.mark.parametrize("typestr", TYPES)
def test_buffers_survive_pickles(typestr: str, shape: tuple[int, ...]) -> None:
    """Of every protocol, with memory inside and beside; and copies are of their own."""
    values = noise(int(np.prod(shape))).reshape(shape).astype(TYPES[typestr])
    buffer = buffer_of(values)
    found = [pickle.loads(pickle.dumps(buffer, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for each in [*found, crossed(buffer), crossed(buffer, mapped) if values.size else buffer, copy.deepcopy(buffer)]:
        assert type(each) is spdl.io.CPUBuffer
        assert (each.shape, each.dtype) == (shape, values.dtype)
        np.testing.assert_array_equal(spdl.io.to_numpy(each), values)
        assert spdl.io.to_numpy(each).flags.writeable
        assert (each.failures, each.origins, each.applied) == ((), (), ())
    independent = copy.copy(buffer)
    spdl.io.to_numpy(buffer)[...] = 1
    np.testing.assert_array_equal(spdl.io.to_numpy(independent), values)


def test_bfloat16_survives() -> None:
    """Though it is none of NumPy's types."""
    transform = ImageTransform((4, 4), dtype="bfloat16", mean=(0, 0, 0), std=(1, 1, 1))
    batch = load_image_batch([make_jpeg(64, 48)], transform=transform)
    for each in (crossed(batch), *(pickle.loads(pickle.dumps(batch, protocol)) for protocol in range(6))):
        assert repr(each) == repr(batch)
        assert bytes(memoryview(each).cast("B")) == bytes(memoryview(batch).cast("B"))


def test_memory_beside_a_pickle_is_that_of_the_buffer_and_of_its_storage() -> None:
    """Its own address goes out; the storage of the user's, if it is in there."""
    storage = np.zeros((3, 12, 16, 3), np.uint8)
    batch = load_image_batch([make_jpeg(64, 48)] * 2, width=16, height=12, storage=storage)
    (out,) = apart(batch)[1]
    sent = np.frombuffer(out.raw(), np.uint8)
    assert (sent.ctypes.data, sent.nbytes) == (storage.ctypes.data, 2 * 12 * 16 * 3)
    assert not out.raw().readonly


def test_memory_that_came_is_used_in_place() -> None:
    """Written through, kept by every view, given back with the last."""
    head, (out,) = apart(buffer_of(np.arange(600, dtype=np.int16)))
    memory = mapped(out)
    buffer = pickle.loads(head, buffers=[memory])
    view = spdl.io.to_numpy(buffer)
    view[0] = 77
    assert memory[0] == 77
    del buffer
    gc.collect()
    assert is_held(memory)
    part = view[100:]
    del view
    assert is_held(memory)
    del part
    gc.collect()
    assert not is_held(memory)


def test_memory_that_is_read_only_gives_a_buffer_that_is() -> None:
    """For all ways to it."""
    head, (out,) = apart(buffer_of(np.arange(6, dtype=np.float32)))
    buffer = pickle.loads(head, buffers=[bytes(out.raw())])
    assert memoryview(buffer).readonly
    assert not spdl.io.to_numpy(buffer).flags.writeable
    with pytest.raises(TypeError, match="writable"):
        spdl.io.convert_array([1], storage=buffer)
    again = crossed(buffer)
    assert memoryview(again).readonly
    assert (spdl.io.to_numpy(again) == np.arange(6)).all()


def test_memory_of_another_size_is_refused() -> None:
    """Too little, too much, none."""
    head, (out,) = apart(buffer_of(np.arange(6, dtype=np.float32)))
    memory = bytes(out.raw())
    for wrong in (memory[:-1], b"", memory + b"0"):
        with pytest.raises(spdl.io.ConvertError, match="it has 24 bytes and the memory that came with it has"):
            pickle.loads(head, buffers=[wrong])
    with pytest.raises(TypeError, match="memory must be a C-contiguous buffer"):
        pickle.loads(head, buffers=[np.zeros((4, 12), np.uint8)[:, ::2]])
    restore, (_, shape, typestr, *rest) = buffer_of(np.arange(6, dtype=np.float32)).__reduce_ex__(5)
    with pytest.raises(ValueError, match="typestr"):
        restore(memory, shape, "<c8", *rest)
    with pytest.raises(ValueError, match=">= 0"):
        restore(memory, (-6,), typestr, *rest)
    with pytest.raises(spdl.io.ConvertError, match="larger than the address space"):
        restore(memory, (2**62, 4), typestr, *rest)


def test_a_cycle_through_the_memory_is_collected() -> None:
    """A buffer whose storage refers to it."""

    class Memory(np.ndarray[Any, Any]):
        pass

    memory = np.zeros(24, np.uint8).view(Memory)
    head, _ = apart(buffer_of(np.arange(6, dtype=np.float32)))
    memory.buffer = pickle.loads(head, buffers=[memory])  # type: ignore[attr-defined]
    gone = weakref.ref(memory)
    del memory
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------------------------------------------- what batches tell


@pytest.mark.parametrize(
    "source",
    [b"junk", bytearray(b"junk"), memoryview(b"junk"), np.frombuffer(b"junk", np.uint8), array.array("B", b"junk")],
    ids=lambda source: type(source).__name__,
)
def test_failures_cross(source: Any) -> None:
    """With their error, and a source that another process can have."""
    batch = failing_batch(source)
    (failure,) = crossed(batch).failures
    (expected,) = batch.failures
    assert (failure.index, type(failure.error)) == (1, type(expected.error))
    assert str(failure.error) == str(expected.error)
    assert vars(failure.error) == vars(expected.error)
    assert bytes(failure.source) == b"junk"


def test_a_failure_of_mapped_memory_and_of_a_path_crosses() -> None:
    """A mapping does not pickle; its bytes do."""
    memory = mmap.mmap(-1, 4)
    memory[:] = b"junk"
    assert crossed(failing_batch(memory)).failures[0].source == b"junk"
    (failure,) = crossed(failing_batch("/nowhere/at/all.jpg")).failures
    assert isinstance(failure.error, spdl.io.SourceNotFoundError)
    assert failure.source == "/nowhere/at/all.jpg"


@pytest.mark.parametrize("protocol", [2, 5])
def test_what_a_transform_did_crosses(protocol: int) -> None:
    """Places, flips, origins and spares; also of images that are not there."""
    transform = ImageTransform((12, 16), crop=RandomResizedCrop(), flip=0.5, vertical_flip=0.5)
    sources = [make_jpeg(64, 48), b"junk", make_jpeg(33, 77), b"junk"]
    batch = load_image_batch(sources, transform=transform, seeds=range(4), strict=False, missing="zero")
    arrived = pickle.loads(pickle.dumps(batch, protocol))
    assert arrived.applied == batch.applied
    assert arrived.applied[1] is None
    assert arrived.origins == batch.origins
    assert [failure.index for failure in arrived.failures] == [1, 3]
    again = pickle.loads(pickle.dumps(arrived, protocol))
    assert again.applied == batch.applied


# ------------------------------------------------------------------------------------------------------------ packets


def large_picture() -> Any:
    """Packets whose one packet is worth a buffer of its own."""
    stream = io.BytesIO()
    Image.fromarray(noise(200 * 200 * 3).reshape(200, 200, 3)).save(stream, "PNG")
    return spdl.io.demux_image(stream.getvalue())


def mixed_video() -> Any:
    """Packets of which the key frames are large."""
    source = pictures(size="320x240", duration=0.5)
    path = clip("mixed.mp4", *source, "-vf", "noise=alls=50:allf=t", "-c:v", "libx264", "-g", "5", "-qp", "24")
    return spdl.io.demux_video(path, timestamp=(0.1, 0.4))


def sound() -> Any:
    """Packets that are small."""
    return spdl.io.demux_audio(clip("crossing.flac", *tones(8000, 0.5)))


PACKETS = {"picture": large_picture, "video": mixed_video, "sound": sound}


def decoded(packets: Any) -> Any:
    """What a clone of them decodes to."""
    return spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets.clone())))


@pytest.mark.parametrize("carry", [lambda buffer: bytearray(buffer.raw()), mapped, bytes, lambda buffer: buffer])
@pytest.mark.parametrize("kind", PACKETS)
def test_packets_arrive_as_they_are(kind: str, carry: Any) -> None:
    """All that they tell, and what they decode to."""
    packets = PACKETS[kind]()
    arrived = crossed(packets, carry)
    assert type(arrived) is type(packets)
    assert repr(arrived) == repr(packets)
    assert arrived.__getstate__() == packets.__getstate__()
    assert (decoded(arrived) == decoded(packets)).all()
    assert (decoded(crossed(arrived)) == decoded(packets)).all()


def test_large_packets_are_sent_where_they_lie() -> None:
    """With the padding that decoders want; small ones together."""
    packets = mixed_video()
    small, *large = (buffer.raw().nbytes for buffer in apart(packets)[1])
    assert len(large) >= 1
    assert min(large) > 32 << 10
    assert small + sum(large) < len(packets.__getstate__()) + 1000
    assert len(apart(sound())[1]) == 1


@pytest.mark.parametrize("kind", PACKETS)
def test_packets_keep_the_memory_that_came(kind: str) -> None:
    """A clone has memory of its own."""
    head, buffers = apart(PACKETS[kind]())
    memories = [mapped(buffer) for buffer in buffers]
    packets = pickle.loads(head, buffers=memories)
    assert is_held(memories[-1])
    clone = packets.clone()
    spdl.io.decode_packets(packets)
    del packets
    gc.collect()
    assert not any(map(is_held, memories))
    assert (decoded(clone) == decoded(PACKETS[kind]())).all()


def test_wrong_memory_of_packets_is_refused() -> None:
    """Too little, too much, none, in another order, of something else."""
    head, buffers = apart(mixed_video())
    memories = [bytes(buffer.raw()) for buffer in buffers]
    assert len(memories) > 2
    wrong: list[list[bytes]] = [memories[::-1], [b""] * len(memories), [memories[0], *memories[:0:-1]]]
    for i in range(2):
        wrong += [[*memories[:i], memories[i][:-cut], *memories[i + 1 :]] for cut in (1, 64, 1000, len(memories[i]))]
        wrong.append([*memories[:i], memories[i] + b"0", *memories[i + 1 :]])
    damaged = bytearray(memories[1])
    damaged[-1] = 1
    wrong.append([memories[0], bytes(damaged), *memories[2:]])
    for each in wrong:
        with pytest.raises(spdl.io.MediaError, match="restore packets from bytes"):
            pickle.loads(head, buffers=each)
    restore, _ = mixed_video().__reduce_ex__(5)
    for each in (memories[:1], memories[:-1], [*memories, b"more"]):
        with pytest.raises(spdl.io.MediaError):
            restore(*each)
    with pytest.raises(spdl.io.MediaError):
        type(mixed_video()).deserialize(memories[0])


# ---------------------------------------------------------------------------------------------------- another process


def _answer(connection: Connection) -> None:
    """The other process: what it makes of what it gets."""
    with connection:
        while (message := connection.recv()) is not None:
            head, buffers = message
            got = pickle.loads(head, buffers=[mapped(buffer) for buffer in buffers])
            connection.send((repr(got), np.asarray(got) if isinstance(got, spdl.io.CPUBuffer) else decoded(got)))


def test_another_process_sees_the_same() -> None:
    """Buffers and packets."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(there,))
    process.start()
    there.close()
    with here:
        for each in (buffer_of(np.arange(2000.0)), failing_batch(b"junk"), *(make() for make in PACKETS.values())):
            head, buffers = apart(each)
            here.send((head, [bytes(buffer.raw()) for buffer in buffers]))
            words, values = here.recv()
            assert words == repr(each)
            assert (values == (np.asarray(each) if isinstance(each, spdl.io.CPUBuffer) else decoded(each))).all()
        here.send(None)
    process.join()
    assert process.exitcode == 0
