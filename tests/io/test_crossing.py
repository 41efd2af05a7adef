"""Frames on their way to another process: what arrives is what was sent, in the memory that came, as long as needed."""

import gc
import io
import itertools
import multiprocessing
import pickle
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.crossing import apart, crossed, is_held, mapped
from tests.io.raw import noise, raw_audio
from tests.support.media import clip, h264, pictures

PIX_FMTS = ["yuv420p", "yuvj420p", "yuv422p10le", "yuv444p", "nv12", "rgb24", "rgba", "bgr24", "gray", "gray16le",
            "gray10be", "gbrp", "gbrpf32le", "yuva420p", "p010le", "yuyv422", "monow", "rgb48le", "argb"]  # fmt: skip
SAMPLE_FMTS = ["u8", "s16", "s32", "s64", "flt", "dbl", "u8p", "s16p", "s32p", "s64p", "fltp", "dblp"]


def video(filter_desc: str | None = None, size: str = "322x242", **window: Any) -> Any:
    """Five pictures, some of whose planes are worth a buffer of their own and some not."""
    path = clip("crossing.mp4", *pictures(size=size, duration=0.2), "-c:v", "libx264", "-pix_fmt", "yuv420p")
    return spdl.io.decode_packets(spdl.io.demux_video(path, **window), filter_desc)


def in_format(pix_fmt: str) -> Any:
    """The same in that format."""
    return video(f"format=pix_fmts={pix_fmt}")


def sound(sample_fmt: str = "fltp", num_channels: int = 2, num_samples: int = 30000) -> Any:
    """Noise."""
    samples = noise(num_samples * num_channels * 2).view(np.int16).reshape(-1, num_channels)
    return raw_audio(samples, "s16le", filter_desc=f"aformat=sample_fmts={sample_fmt}")


def filtered(frames: Any, chain: str, time_base: str = "1/12800") -> Any:
    """A clone of them through a graph of filters, as an array."""
    source = f"buffer=video_size={frames.width}x{frames.height}:pix_fmt={frames.pix_fmt}:time_base={time_base}"
    graph = spdl.io.FilterGraph(f"{source},{chain},buffersink")
    graph.add_frames(frames.clone())
    graph.flush()
    result = graph.get_frames()
    return None if result is None else array_of(result)


def array_of(frames: Any) -> Any:
    """A clone of them as an array."""
    return spdl.io.to_numpy(spdl.io.convert_frames(frames.clone()))


def content(frames: Any) -> bytes:
    """All samples of a clone of them, whatever their format."""
    try:
        return bytes(array_of(frames).tobytes())
    except spdl.io.UnsupportedFormatError:
        return bytes(filtered(frames, "format=pix_fmts=rgb48le").tobytes())


def told(frames: Any) -> dict[str, Any]:
    """All that they tell."""
    names = ["num_frames", "num_planes", "width", "height", "pix_fmt", "sample_rate", "num_channels", "sample_fmt",
             "time_base", "metadata", "num_errors", "pts"]  # fmt: skip
    facts = {name: getattr(frames, name) for name in names if hasattr(frames, name)}
    facts["repr"] = repr(frames)
    if hasattr(frames, "get_pts"):
        facts["all pts"] = frames.get_pts(), frames.get_timestamps()
    return facts


# ------------------------------------------------------------------------------------------------------------ content


@pytest.mark.parametrize("carry", [lambda buffer: bytearray(buffer.raw()), mapped, lambda buffer: buffer, bytes])
@pytest.mark.parametrize("pix_fmt", PIX_FMTS)
def test_pictures_arrive_as_they_are(pix_fmt: str, carry: Any) -> None:
    """Every plane to the bit, in memory that fits or does not; the sender's stay."""
    frames = in_format(pix_fmt)
    assert frames.pix_fmt == pix_fmt
    arrived = crossed(frames, carry)
    assert type(arrived) is type(frames)
    assert told(arrived) == told(frames)
    assert content(arrived) == content(frames)
    assert filtered(arrived, "scale=w=99:h=77,format=rgb24").tobytes() == (
        filtered(frames, "scale=w=99:h=77,format=rgb24").tobytes()
    )


@pytest.mark.parametrize("carry", [lambda buffer: bytearray(buffer.raw()), mapped])
@pytest.mark.parametrize("num_channels", [1, 2, 8, 9, 30])
@pytest.mark.parametrize("sample_fmt", SAMPLE_FMTS)
def test_samples_arrive_as_they_are(sample_fmt: str, num_channels: int, carry: Any) -> None:
    """Packed and planar; more channels than a frame has room for too."""
    frames = sound(sample_fmt, num_channels, 3000)
    assert frames.sample_fmt == sample_fmt
    arrived = crossed(frames, carry)
    assert told(arrived) == told(frames)
    assert content(arrived) == content(frames)


def test_many_large_planes_arrive() -> None:
    """Of more channels than a frame has references for, each of a buffer of its own."""
    frames = spdl.io.create_reference_audio_frame(noise(16 * 40000 * 4).view(np.int32).reshape(16, -1), "s32p", 8000, 0)
    graph = spdl.io.FilterGraph("abuffer=sample_rate=8000:sample_fmt=s32p:channel_layout=16c,volume=0.5,abuffersink")
    graph.add_frames(frames)
    graph.flush()
    own = graph.get_frames()
    assert content(crossed(own, mapped)) == content(own)


def test_a_palette_arrives() -> None:
    """It is a plane of its own."""
    stream = io.BytesIO()
    picture = Image.fromarray(noise(200 * 300 * 3).reshape(200, 300, 3)).quantize(200)
    picture.save(stream, "PNG")
    frames = spdl.io.decode_packets(spdl.io.demux_image(stream.getvalue()), None)
    assert frames.pix_fmt == "pal8"
    arrived = crossed(frames, mapped)
    assert told(arrived) == told(frames)
    shown = filtered(arrived, "format=pix_fmts=rgb24")
    assert (shown[0] == np.asarray(picture.convert("RGB"))).all()


@pytest.mark.parametrize(
    "chain", ["vflip", "crop=w=100:h=50:x=33:y=21", "vflip,crop=w=64:h=64", "hflip", "transpose", "null", "pad=w=400"]
)
def test_pictures_within_larger_memory_arrive(chain: str) -> None:
    """Rows that go upwards, parts of larger pictures."""
    frames = video(chain)
    assert content(crossed(frames, mapped)) == content(frames)


def test_slices_and_repeats_share_what_is_sent() -> None:
    """What several pictures share is sent once, and what none of them needs is not."""
    frames = in_format("rgb24")
    one = sum(buffer.raw().nbytes for buffer in apart(frames[[0]])[1])
    many = frames[[0, 0, 3, 0, 3]]
    assert sum(buffer.raw().nbytes for buffer in apart(many)[1]) < 2.1 * one
    assert content(crossed(many)) == content(many)
    assert content(crossed(frames[::-2])) == content(frames[::-2])
    assert told(crossed(frames[3])) == told(frames[3])
    assert type(crossed(frames[3])) is spdl.io.ImageFrames
    assert len(crossed(frames[[]])) == 0


def test_arrays_that_are_frames_are_sent_where_they_lie() -> None:
    """But for the last picture, behind which there is nothing that may be read."""
    array = noise(8 * 256 * 256 * 3).reshape(8, 256, 256, 3)
    frames = spdl.io.create_reference_video_frame(array, "rgb24", (25, 1), 0)
    buffers = apart(frames)[1]
    addresses = [np.frombuffer(buffer.raw(), np.uint8).ctypes.data for buffer in buffers]
    start = array.ctypes.data
    assert any(start <= address < start + array.nbytes for address in addresses)
    assert (array_of(crossed(frames, mapped)) == array).all()


def test_what_filters_look_at_arrives() -> None:
    """Colours, kinds of pictures, fields, side data."""
    chains = {
        "setparams=colorspace=smpte240m:range=pc": "format=pix_fmts=rgb24",
        "setfield=tff": r"select=eq(interlace_type\,TOPFIRST)",
        "null": r"select=key*eq(pict_type\,PICT_TYPE_I)",
    }
    for made, looked_at in chains.items():
        frames = video(made)
        expected = filtered(frames, f"{looked_at},format=pix_fmts=rgb24")
        assert (filtered(crossed(frames), f"{looked_at},format=pix_fmts=rgb24") == expected).all()
    turned = clip(
        "turned_crossing.mp4",
        "-i",
        str(h264()),
        "-c",
        "copy",
        "-bsf:v",
        "h264_metadata=display_orientation=insert:rotate=90",
    )
    frames = spdl.io.decode_packets(spdl.io.demux_video(turned), None)
    with_matrix = filtered(frames, "sidedata=mode=select:type=DISPLAYMATRIX")
    assert len(with_matrix) > 0
    assert (filtered(crossed(frames), "sidedata=mode=select:type=DISPLAYMATRIX") == with_matrix).all()


def test_metadata_and_tolerated_errors_arrive() -> None:
    """Text of a file; how much of it was damaged."""
    frames = video("drawbox,signalstats,metadata=mode=add:key=note:value=wörds")[2]
    assert frames.metadata["note"] == "wörds"
    assert crossed(frames).metadata == frames.metadata
    path = h264()
    data = bytearray(path.read_bytes())
    packets = spdl.io.demux_video(path)
    data[len(data) // 3 : len(data) // 3 + 600] = bytes(600)
    packets = spdl.io.demux_video(bytes(data))
    damaged = spdl.io.decode_packets(packets, decode_config=spdl.io.decode_config(tolerate_errors=True))
    assert crossed(damaged).num_errors == damaged.num_errors


# ------------------------------------------------------------------------------------------------------------- memory


def test_planes_stay_in_the_memory_that_came() -> None:
    """No copy: what changes there changes the pictures."""
    memories = []
    head, buffers = apart(in_format("rgb24"))
    memories = [mapped(buffer) for buffer in buffers]
    arrived = pickle.loads(head, buffers=memories)
    for memory in memories[1:]:
        memory[:] = bytes([7]) * len(memory)
    assert len(memories) > 1
    assert (array_of(arrived) == 7).all()


def test_memory_goes_back_with_the_last_that_needs_it() -> None:
    """Frames, clones, slices, a graph of filters that holds them; arrays made of them do not."""
    head, buffers = apart(in_format("rgb24"))
    memories = [mapped(buffer) for buffer in buffers]
    arrived = pickle.loads(head, buffers=memories)
    last = arrived[4]
    clone = last.clone()
    array = array_of(arrived)
    del arrived
    gc.collect()
    assert any(map(is_held, memories))
    spdl.io.convert_frames(last)
    assert any(map(is_held, memories))
    graph = spdl.io.FilterGraph("buffer=video_size=322x242:pix_fmt=rgb24:time_base=1/25,reverse,buffersink")
    graph.add_frames(clone)
    assert any(map(is_held, memories))
    del graph
    gc.collect()
    assert not any(map(is_held, memories))
    assert array.shape == (5, 242, 322, 3)


def test_a_picture_holds_no_more_than_its_own_memory() -> None:
    """The rest goes back when the other pictures do."""
    head, buffers = apart(in_format("rgb24"))
    memories = [mapped(buffer) for buffer in buffers]
    last = pickle.loads(head, buffers=memories)[4]
    gc.collect()
    assert sum(map(is_held, memories)) <= 2
    assert content(last) == content(in_format("rgb24")[4])


def test_what_is_sent_keeps_the_senders_memory() -> None:
    """Also once the frames are consumed, and as long as a buffer is there."""
    frames = in_format("gray")
    expected = content(frames)
    head, buffers = apart(frames)
    spdl.io.convert_frames(frames)
    del frames
    gc.collect()
    assert content(pickle.loads(head, buffers=buffers)) == expected
    with pytest.raises(TypeError):
        memoryview(buffers[0])[0] = 0


def test_filters_do_not_write_to_the_memory() -> None:
    """One that draws in place gets a copy."""
    frames = crossed(in_format("yuv420p"), mapped)
    before = content(frames)
    assert filtered(frames, "drawbox=x=0:y=0:w=64:h=64:color=red:t=fill").tobytes() != before
    assert content(frames) == before


# ------------------------------------------------------------------------------------------------------------- errors


def test_consumed_frames_do_not_cross() -> None:
    """As all else."""
    frames = in_format("gray")
    spdl.io.convert_frames(frames)
    with pytest.raises(spdl.io.ConsumedError):
        apart(frames)


def test_plain_pickle_still_refuses() -> None:
    """The hook is for the way between processes of one program."""
    with pytest.raises(TypeError, match="cannot pickle frames: pickle their packets, or the array"):
        pickle.dumps(in_format("gray"), 5)


def test_wrong_memory_is_refused() -> None:
    """Too little, too much, none, in another order, of something else."""
    head, buffers = apart(in_format("yuv420p"))
    memories = [bytes(buffer.raw()) for buffer in buffers]
    assert len(memories) > 2
    wrong: list[Any] = [memories[::-1], [memories[1], memories[0], *memories[2:]], [b"" for _ in memories]]
    for i in range(2):
        for cut in (1, 40, 64, 65, 1000, len(memories[i])):
            wrong.append([*memories[:i], memories[i][:-cut], *memories[i + 1 :]])
        wrong.append([*memories[:i], memories[i] + b"0", *memories[i + 1 :]])
    packets = bytes(spdl.io.demux_video(h264()).__getstate__())
    wrong.append([packets, *memories[1:]])
    for each in wrong:
        with pytest.raises(spdl.io.MediaError, match="make frames of what another process sent"):
            pickle.loads(head, buffers=each)
    restore = in_format("gray").__reduce_transport__()[0]
    for count in (1, len(memories) - 1):
        with pytest.raises(spdl.io.MediaError):
            restore(*memories[:count])
    with pytest.raises(spdl.io.MediaError):
        restore(*memories, b"more")
    with pytest.raises(TypeError):
        restore("text")


def test_a_damaged_description_is_refused() -> None:
    """Whichever byte of it."""
    frames = in_format("gray")
    restore, buffers = frames.__reduce_transport__()
    memories = [bytes(buffer.raw()) for buffer in buffers]
    size = 24 + int.from_bytes(memories[0][8:16], "little")
    for at in itertools.chain(range(60), range(60, size, 7)):
        damaged = bytearray(memories[0])
        damaged[at] ^= 0x11
        with pytest.raises(spdl.io.MediaError):
            restore(damaged, *memories[1:])


# ---------------------------------------------------------------------------------------------------- another process


def _answer(connection: Connection) -> None:
    """The other process: what it makes of what it gets."""
    with connection:
        while (message := connection.recv()) is not None:
            head, buffers = message
            frames = pickle.loads(head, buffers=[mapped(buffer) for buffer in buffers])
            connection.send((told(frames), content(frames)))


def test_another_process_sees_the_same() -> None:
    """Pictures and samples of several formats, converted there and here."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(there,))
    process.start()
    there.close()
    with here:
        for frames in [*map(in_format, PIX_FMTS), *map(sound, SAMPLE_FMTS), video("vflip"), in_format("rgb24")[2]]:
            head, buffers = apart(frames)
            here.send((head, [bytes(buffer.raw()) for buffer in buffers]))
            assert here.recv() == (told(frames), content(frames))
        here.send(None)
    process.join()
    assert process.exitcode == 0
