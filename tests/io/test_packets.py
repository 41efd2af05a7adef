"""Packets: what they tell, and how they are kept, sent and restored."""

import copy
import ctypes
import gc
import pickle
import random
import re
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, h264, pictures, tones


def sound() -> Path:
    """Half a second of stereo."""
    return clip("stereo.flac", *tones(8000, 0.5, "sin(440*2*PI*t)|sin(550*2*PI*t)"))


def picture() -> Path:
    """One picture."""
    return clip("one.png", *pictures(duration=1, rate="1"), "-frames:v", "1")


def some() -> dict[str, Any]:
    """Packets of each kind."""
    return {
        "audio": spdl.io.demux_audio(sound()),
        "video": spdl.io.demux_video(h264(), timestamp=(0.5, 1)),
        "image": spdl.io.demux_image(picture()),
    }


EACH_KIND = pytest.mark.parametrize("kind", ["audio", "video", "image"])


def decoded(packets: Any) -> np.ndarray[Any, Any]:
    """What a clone of them decodes to."""
    return spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets.clone())))


# ------------------------------------------------------------------------------------------------------ properties


def test_properties_are_those_of_the_stream() -> None:
    """Sizes, rates, formats, and the codec itself."""
    packets = some()
    audio, video, image = packets["audio"], packets["video"], packets["image"]
    assert (audio.sample_rate, audio.num_channels, audio.timestamp) == (8000, 2, None)
    assert (audio.codec.name, audio.codec.sample_fmt, audio.codec.channel_layout) == ("flac", "s32", "0x3")
    assert (video.width, video.height, video.pix_fmt, video.frame_rate) == (64, 48, "yuv420p", (25, 1))
    assert (video.timestamp, video.codec.frame_rate, len(video)) == ((0.5, 1.0), (25, 1), 12)
    assert (image.width, image.height, image.pix_fmt, image.codec.name) == (64, 48, "rgb24", "png")
    with pytest.raises(TypeError):
        len(image)
    assert all(each.num_errors == 0 for each in packets.values())


def test_packets_show_what_they_are() -> None:
    """The source, the count, the times, the window and the codec; also with a bit stream filter."""
    codec = r"Codec=<bit_rate=\d+, bits_per_sample=8, codec=\"h264\", pixel_format=\"yuv420p\", {}width=64, height=48>"
    times = r"num_packets=12, pts=\[0\.520, 0\.960\], timestamp=\(0\.5, 1\)"
    shown = repr(spdl.io.demux_video(h264(), timestamp=(0.5, 1)))
    video = codec.format("frame_rate=25/1, ")
    assert re.fullmatch(rf'VideoPackets<src="{h264()}:0", {times}, {video}>', shown)
    filtered = repr(spdl.io.demux_video(h264(), timestamp=(0.5, 1), bsf="h264_mp4toannexb"))
    assert re.fullmatch(rf'VideoPackets<src="{h264()}:0", {times}, {video}>', filtered)
    assert re.fullmatch(rf'ImagePackets<src="{h264()}", {codec.format("")}>', repr(spdl.io.demux_image(h264())))
    audio = repr(spdl.io.demux_audio(sound().read_bytes()))
    assert audio.startswith('AudioPackets<src="Bytes: 0x')
    assert 'codec="flac", sample_format="s32", sample_rate=8000, num_channels=2>>' in audio
    assert 'src="item 7:0"' in repr(spdl.io.demux_audio(sound().read_bytes(), name="item 7"))


def test_classes_have_no_constructors() -> None:
    """They come out of containers and encoders."""
    for name in ("AudioPackets", "VideoPackets", "ImagePackets", "AudioCodec", "VideoCodec", "ImageCodec"):
        with pytest.raises(TypeError):
            getattr(spdl.io, name)()


@EACH_KIND
def test_a_clone_can_be_decoded_on_its_own(kind: str) -> None:
    """Any number of times, also after the original is gone."""
    packets = some()[kind]
    expected = decoded(packets)
    copies = [packets.clone(), copy.copy(packets), copy.deepcopy(packets)]
    spdl.io.decode_packets(packets)
    del packets
    gc.collect()
    for each in copies:
        assert (decoded(each) == expected).all()
        assert (decoded(each) == expected).all()


@EACH_KIND
def test_consumed_packets_are_gone(kind: str) -> None:
    """Whatever is done with them; nothing is printed beside the error."""
    packets = some()[kind]
    spdl.io.decode_packets(packets)
    uses: list[Any] = [
        lambda: spdl.io.decode_packets(packets),
        packets.clone,
        lambda: repr(packets),
        lambda: packets.codec,
        lambda: pickle.dumps(packets),
        lambda: spdl.io.apply_bsf(packets, "null"),
    ]
    if kind != "image":
        uses += [lambda: len(packets), lambda: packets.timestamp]
    for use in uses:
        with pytest.raises(spdl.io.ConsumedError, match="consumed") as caught:
            use()
        assert isinstance(caught.value, TypeError)


# ---------------------------------------------------------------------------------------------------------- pickle


@EACH_KIND
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_packets_survive_a_pickle(kind: str, protocol: int) -> None:
    """All that they tell, and what they decode to."""
    packets = some()[kind]
    restored = pickle.loads(pickle.dumps(packets, protocol))
    assert type(restored) is type(packets)
    assert repr(restored) == repr(packets)
    assert (decoded(restored) == decoded(packets)).all()
    assert restored.__getstate__() == packets.__getstate__()


def test_packets_can_go_to_another_process() -> None:
    """Which has nothing but the pickle."""
    program = (
        "import pickle, sys, spdl.io\n"
        "packets = pickle.load(sys.stdin.buffer)\n"
        "frames = spdl.io.decode_packets(packets)\n"
        "print(len(frames), frames.get_timestamps()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(some()["video"]), capture_output=True, check=True
    )
    assert done.stdout.decode().split() == ["12", "0.52"]


def test_protocol_5_moves_the_bytes_beside_the_pickle() -> None:
    """They are the only buffer, and are read where they are."""
    packets = some()["video"]
    buffers: list[pickle.PickleBuffer] = []
    small = pickle.dumps(packets, 5, buffer_callback=buffers.append)
    assert len(small) < 200
    assert len(buffers) == 1
    memory = bytearray(buffers[0].raw())
    restored = pickle.loads(small, buffers=[memory])
    with pytest.raises(BufferError):
        memory.append(0)
    assert (decoded(restored) == decoded(packets)).all()


def test_streamed_packets_and_rotation_are_kept() -> None:
    """Packets without a codec; what a container says beside the codec."""
    with spdl.io.Demuxer(h264()) as demuxer:
        chunk: Any = next(iter(demuxer.streaming_demux(0, num_packets=7)))
    restored = pickle.loads(pickle.dumps(chunk))
    assert restored.codec is None
    assert restored.get_timestamps(raw=True) == chunk.get_timestamps(raw=True)
    turned = clip("turned.mov", "-i", str(h264()), "-c", "copy", "-metadata:s:v", "rotate=90")
    packets = spdl.io.demux_video(turned)
    assert len(packets.__getstate__()) > len(spdl.io.demux_video(h264()).__getstate__())
    assert pickle.loads(pickle.dumps(packets)).__getstate__() == packets.__getstate__()


@EACH_KIND
def test_a_view_is_read_in_place_and_keeps_the_buffer(kind: str) -> None:
    """A clone of it has memory of its own."""

    class Data(bytearray):
        """Can be referred to weakly."""

    packets = some()[kind]
    data = Data(packets.__getstate__())
    alive = weakref.ref(data)
    view = type(packets).deserialize_view(memoryview(data))
    del data
    gc.collect()
    assert alive() is not None
    expected, clone = decoded(packets), view.clone()
    assert (decoded(view) == expected).all()
    del view
    gc.collect()
    assert alive() is None
    assert (decoded(clone) == expected).all()


def test_decoding_a_view_lets_go_of_the_buffer() -> None:
    """Once the frames that may be made of it are gone too, on whatever thread."""
    data = bytearray(some()["video"].__getstate__())
    views = [spdl.io.VideoPackets.deserialize_view(memoryview(data)) for _ in range(4)]
    threads = [threading.Thread(target=spdl.io.decode_packets, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del threads
    gc.collect()
    data.append(0)


def test_a_clone_of_a_view_does_not_see_changes() -> None:
    """Whoever owns the buffer may use it again."""
    packets = some()["image"]
    data = bytearray(packets.__getstate__())
    clone = spdl.io.ImagePackets.deserialize_view(memoryview(data)).clone()
    ctypes.memset((ctypes.c_char * len(data)).from_buffer(data), 0, len(data))
    assert (decoded(clone) == decoded(packets)).all()


def test_another_kind_of_media_is_refused() -> None:
    """Each class takes its own."""
    packets = some()
    for kind, each in packets.items():
        for other in packets.values():
            if other is not each:
                with pytest.raises(spdl.io.MediaError, match=f"they are of {kind}"):
                    type(other).deserialize(each.__getstate__())
                with pytest.raises(RuntimeError):
                    type(other).deserialize_view(memoryview(each.__getstate__()))


@pytest.mark.parametrize("data", [b"", b"SPDLPKT", b"SPDLPKT\x01", b"SPDLPKT\x02" + bytes(100), bytes(500)])
def test_other_bytes_are_refused(data: bytes) -> None:
    """Short, of a later version, or something else."""
    with pytest.raises(spdl.io.MediaError, match="cannot restore packets from bytes"):
        spdl.io.VideoPackets.deserialize(data)


@EACH_KIND
def test_damaged_bytes_are_refused_or_harmless(kind: str) -> None:
    """What is changed in the description is always seen; what is changed in the encoded data, the decoder judges."""
    packets = some()[kind]
    state = packets.__getstate__()
    rng = random.Random(5)
    for _ in range(300):
        changed = bytearray(state)
        match rng.randrange(3):
            case 0:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            case 1:
                del changed[rng.randrange(len(changed)) :]
            case _:
                at = rng.randrange(len(changed))
                changed[at : at + 8] = rng.randbytes(8)
        try:
            restored = type(packets).deserialize(bytes(changed))
            repr(restored)
            spdl.io.decode_packets(restored)
        except RuntimeError:
            continue
    for at in range(min(200, len(state))):
        changed = bytearray(state)
        changed[at] ^= 0x40
        with pytest.raises(spdl.io.MediaError):
            type(packets).deserialize(bytes(changed))


def test_frames_and_codecs_do_not_pickle() -> None:
    """They are of this process."""
    packets = some()["video"]
    for each in (packets.codec, spdl.io.decode_packets(packets)):
        with pytest.raises(TypeError):
            pickle.dumps(each)
