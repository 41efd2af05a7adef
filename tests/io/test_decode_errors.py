"""Decoding what is damaged, unknown or wrong."""

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io import (
    DecodeConfig,
    Decoder,
    decode_config,
    decode_packets,
    demux_audio,
    demux_image,
    demux_video,
    to_numpy,
)
from tests.support.media import clip, h264, pictures, tones

TOLERANT = decode_config(tolerate_errors=True)
SHORT = pictures(size="160x96", duration=0.6)
CLIPS: dict[str, tuple[Callable[..., Any], Callable[[], Path]]] = {
    "h264": (demux_video, lambda: clip("a.mp4", *SHORT, "-c:v", "libx264", "-g", "6", "-pix_fmt", "yuv420p")),
    "mpeg2": (demux_video, lambda: clip("a.mp4", *SHORT, "-c:v", "mpeg2video", "-g", "6", "-bf", "2")),
    "mpeg4": (demux_video, lambda: clip("a.mp4", *SHORT, "-c:v", "mpeg4", "-g", "6")),
    "mjpeg": (demux_video, lambda: clip("a.mp4", *SHORT, "-c:v", "mjpeg")),
    "flac": (demux_audio, lambda: clip("a.mp4", *tones(), "-c:a", "flac", "-strict", "-2")),
    "ac3": (demux_audio, lambda: clip("a.mp4", *tones(sample_rate=48000, duration=0.5), "-c:a", "ac3")),
}


def array_of(frames: Any) -> Any:
    return to_numpy(spdl.io.convert_frames(frames))


def damaged(data: bytes, seed: int) -> bytes:
    """The data with three bits of its payload flipped."""
    changed = bytearray(data)
    payload = data.index(b"mdat") + 4, data.rindex(b"moov") - 4
    for position in random.Random(seed).sample(range(*payload), 3):
        changed[position] ^= 1 << (position % 8)
    return bytes(changed)


def make_decoder(packets: Any, **options: Any) -> Any:
    return Decoder(packets.codec, **options)


def error_of(packets: Any) -> spdl.io.DecodeError | None:
    """What strict decoding raises."""
    try:
        assert decode_packets(packets).num_errors == 0
    except spdl.io.DecodeError as exc:
        return exc
    return None


@pytest.mark.parametrize("name", CLIPS)
def test_damage_raises_unless_tolerated(name: str) -> None:
    """What strict decoding raises at, tolerant decoding counts; both find most of it."""
    demux, path = CLIPS[name]
    data = path().read_bytes()
    whole = array_of(decode_packets(demux(data)))
    num_found = 0
    for seed in range(10):
        packets = demux(damaged(data, seed))
        tolerant = decode_packets(packets.clone(), decode_config=TOLERANT)
        error = error_of(packets)
        assert (error is not None) == (tolerant.num_errors > 0)
        if error is not None:
            num_found += 1
            assert (error.stream_index, error.action) == (0, "decode")
            assert error.pts is not None
            assert -0.1 < error.pts < 3
            assert error.code is not None
            assert "tolerate_errors=True" in str(error)
    # Where the payload has no check sums, some flips make other pictures, and no damage.
    assert num_found >= (10 if name in ("flac", "ac3") else 3)
    assert array_of(decode_packets(demux(data), decode_config=TOLERANT)).tobytes() == whole.tobytes()


def test_pictures_that_stand_alone_are_kept_as_far_as_they_go() -> None:
    """The upper part of a truncated JPEG is that of the whole."""
    path = clip("photo.jpg", *pictures(size="160x96"), "-frames:v", "1", "-q:v", "2", "-pix_fmt", "yuvj420p")
    data = path.read_bytes()
    whole = array_of(decode_packets(demux_image(data)))
    cut = data[: len(data) // 2]
    with pytest.raises(spdl.io.DecodeError):
        decode_packets(demux_image(cut))
    frames = decode_packets(demux_image(cut), decode_config=TOLERANT)
    assert frames.num_errors == 1
    part = array_of(frames)
    assert part.shape == whole.shape
    assert (part[:16] == whole[:16]).all()


def test_clean_streams_are_not_refused() -> None:
    """Nothing is damaged in a stream that starts in the middle of open groups of pictures."""
    arguments = "-c:v", "libx264", "-pix_fmt", "yuv420p", "-x264-params", "open-gop=1:keyint=6:bframes=3:b-adapt=0"
    path = clip("open.mkv", *pictures(), *arguments)
    for start in np.arange(0, 2, 0.16):
        packets = demux_video(path, timestamp=(start, start + 0.2))
        frames = decode_packets(packets)
        assert len(frames) >= 4 if start < 1.8 else True
        assert frames.num_errors == 0


@pytest.mark.parametrize("run", [
    lambda config: decode_packets(demux_video(h264()), decode_config=config),
    lambda config: make_decoder(demux_video(h264()), decode_config=config),
    lambda config: spdl.io.sample_decode_video(demux_video(h264()), [1], decode_config=config),
], ids=["decode_packets", "Decoder", "sample_decode_video"])  # fmt: skip
@pytest.mark.parametrize(("config", "words"), [
    (decode_config(decoder="nonsense"), "no decoder 'nonsense'"),
    (decode_config(decoder="flac"), "'flac' is for flac, the stream is h264"),
    (decode_config(decoder_options={"nonsense": "1"}), "unknown option 'nonsense'"),
    (decode_config(decoder_options={"threads": "many"}), "does not open"),
])  # fmt: skip
def test_unknown_decoder_or_option_is_named(config: DecodeConfig, words: str, run: Callable[[Any], Any]) -> None:
    """A ``RuntimeError`` when it is used."""
    with pytest.raises(spdl.io.DecodeError, match=words) as caught:
        run(config)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    "filter_desc", ["nonsense", "scale=w=nonsense", "", "format=nonsense", "scale=1:1:flags=nonsense,format=gray"]
)
def test_wrong_filter_is_named(filter_desc: str) -> None:
    """With the source, and with FFmpeg's own words."""
    with pytest.raises(spdl.io.FilterError, match=rf"cannot apply the filter '{filter_desc}' to .*h264\.mp4") as caught:
        decode_packets(demux_video(h264()), filter_desc)
    assert isinstance(caught.value, RuntimeError)


def test_wrong_types_are_named() -> None:
    """As ``TypeError``, before anything is consumed."""
    packets = demux_video(h264())
    wrong: Any = 3
    for call in (
        lambda: decode_packets(wrong),
        lambda: decode_packets(packets, wrong),
        lambda: decode_packets(packets, decode_config=wrong),
        lambda: decode_packets(packets, num_frames="x"),  # type: ignore[call-overload]
        lambda: make_decoder(packets, filter_desc=wrong),
        lambda: decode_config(decoder=wrong),
        lambda: decode_config(decoder_options=wrong),
        lambda: decode_config(decoder_options={"threads": None}),  # type: ignore[dict-item]
        lambda: decode_config(tolerate_errors=wrong),
    ):
        with pytest.raises(TypeError):
            call()
    assert len(packets) == 50


def test_config_is_a_value() -> None:
    """Equal if its fields are, and frozen."""
    config = decode_config("h264", {"threads": 2}, tolerate_errors=True)
    assert config == DecodeConfig("h264", {"threads": "2"}, True)
    assert decode_config() == DecodeConfig()
    with pytest.raises(AttributeError):
        config.decoder = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields", [{"dpi": (72, 72)}, {"description": "a", "artist": "b"}, {"compression": "tiff_lzw"}]
)
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_unknown_fields_of_a_tiff_are_no_damage(fields: dict[str, Any], mode: str) -> None:
    """As FFmpeg's decoder takes them, where it is to be strict; what it cut is damage all the same."""
    picture = Image.linear_gradient("L").convert(mode)
    file = io.BytesIO()
    picture.save(file, "TIFF", **fields)
    frames = decode_packets(demux_image(file.getvalue()))
    assert (array_of(frames) == np.asarray(picture.convert("RGB"))).all()
    with pytest.raises(spdl.io.DecodeError):
        decode_packets(demux_image(file.getvalue()[: len(file.getvalue()) // 2]))
