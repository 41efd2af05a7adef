"""Animations as videos, beside the cells in ``tests/differential``: damage, sources, and what is refused."""

import io
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels, draw
from tests.support.timeouts import TIMEOUT

DURATIONS = [40, 70, 100, 30]


def pictures() -> list[Image.Image]:
    return [draw(64, 48, seed=seed) for seed in range(len(DURATIONS))]


def animation(format: str = "WEBP", **options: Any) -> bytes:
    """Without loss, so that the pictures are those that were drawn."""
    stream = io.BytesIO()
    first, *others = pictures()
    options = {"lossless": True, "kmax": 1, **options} if format == "WEBP" else options
    first.save(stream, format, save_all=True, append_images=others, duration=DURATIONS, **options)
    return stream.getvalue()


def pixels(frames: Any) -> Pixels:
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def expected() -> Pixels:
    return np.stack([np.asarray(picture) for picture in pictures()])


@pytest.mark.parametrize("format", ["WEBP", "PNG"])
def test_an_animation_is_a_video(format: str) -> None:
    """Its pictures, at the sums of their durations."""
    data = animation(format)
    assert (spdl.io.to_numpy(spdl.io.load_video(data)) == expected()).all()
    assert spdl.io.demux_video(data).get_timestamps() == pytest.approx([0, 0.04, 0.11, 0.21])
    assert (spdl.io.to_numpy(spdl.io.load_video(data, (0.11, 0.21))) == expected()[2:3]).all()
    (image,) = spdl.io.sample_decode_video(spdl.io.demux_video(data), times=[0.109])
    assert (pixels(image) == expected()[1]).all()


def test_the_first_picture_is_an_image_on_every_way() -> None:
    """With a configuration, too, and step by step."""
    data = animation()
    assert (spdl.io.to_numpy(spdl.io.load_image(data)) == expected()[0]).all()
    assert (spdl.io.to_numpy(spdl.io.load_image(data, demux_config=spdl.io.demux_config())) == expected()[0]).all()
    frames = spdl.io.decode_packets(spdl.io.demux_image(data), "format=pix_fmts=rgb24")
    assert (pixels(frames) == expected()[0]).all()


def test_packets_can_be_pickled_and_taken_in_parts() -> None:
    """What a decoder needs is in the packets and their codec."""
    packets = pickle.loads(pickle.dumps(spdl.io.demux_video(animation())))
    assert (pixels(spdl.io.decode_packets(packets)) == expected()).all()
    with spdl.io.Demuxer(animation()) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec)
        parts = []
        for part in demuxer.streaming_demux(num_packets=1):
            assert isinstance(part, spdl.io.VideoPackets)
            parts += [pixels(frames) for frames in decoder.streaming_decode_packets(part)]
    assert (np.concatenate([part.reshape(-1, 48, 64, 3) for part in parts]) == expected()).all()


def test_an_animation_is_read_from_a_pipe(tmp_path: Path) -> None:
    """Which cannot be read twice."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(animation(),))
    writer.start()
    assert (spdl.io.to_numpy(spdl.io.load_video(path)) == expected()).all()
    writer.join(TIMEOUT)


def test_a_cut_animation_gives_the_frames_before_the_cut() -> None:
    """Only if that is tolerated."""
    data = animation()
    cut = data[: data.rindex(b"ANMF") + 100]
    with pytest.raises(spdl.io.DemuxError, match="the data of a packet is damaged or cut off"):
        spdl.io.load_video(cut)
    loaded = spdl.io.load_video(cut, demux_config=spdl.io.demux_config(tolerate_errors=True))
    assert (spdl.io.to_numpy(loaded) == expected()[:3]).all()
    without_last = data[: data.rindex(b"ANMF")]
    with pytest.raises(spdl.io.DemuxError, match=f"the data ends early: the file should have {len(data)} bytes"):
        spdl.io.load_video(without_last)


def test_a_damaged_frame_is_named() -> None:
    """With its time; the others come out if that is tolerated."""
    data = bytearray(animation())
    second = data.index(b"ANMF", data.index(b"ANMF") + 4)
    data[second + 40 : second + 240] = bytes(200)
    with pytest.raises(spdl.io.DecodeError, match=r"damaged packet at 0\.040 s of stream 0"):
        spdl.io.load_video(bytes(data))
    loaded = spdl.io.load_video(bytes(data), decode_config=spdl.io.decode_config(tolerate_errors=True))
    assert (spdl.io.to_numpy(loaded) == expected()[[0, 2, 3]]).all()


def _outside(data: bytearray, frame: int) -> None:
    data[frame + 8] = 20  # 40 pixels from the left


def _too_wide(data: bytearray, frame: int) -> None:
    data[frame + 14] -= 1  # than the picture in it


@pytest.mark.parametrize("change", [_outside, _too_wide])
def test_a_frame_that_does_not_fit_is_damage(change: Callable[[bytearray, int], None]) -> None:
    """On the canvas, or its picture into it."""
    data = bytearray(animation())
    change(data, data.index(b"ANMF"))
    with pytest.raises(spdl.io.DecodeError, match=r"damaged packet at 0\.000 s"):
        spdl.io.load_video(bytes(data))


def test_what_animations_are_not_for_is_refused_by_name(tmp_path: Path) -> None:
    """FFmpeg's decoder, and its muxers."""
    data = animation()
    with pytest.raises(
        spdl.io.DecodeError, match="an animated WebP, which is composed by libwebp and not by the decoder"
    ):
        spdl.io.load_video(data, decode_config=spdl.io.decode_config(decoder="webp"))
    packets = spdl.io.demux_video(data)
    muxer = spdl.io.Muxer(tmp_path / "copy.webp")
    assert packets.codec is not None
    muxer.add_remux_stream(packets.codec)
    with (
        muxer.open(),
        pytest.raises(spdl.io.MuxError, match="frames of an animated WebP, which no muxer of FFmpeg takes"),
    ):
        muxer.write(0, packets)
