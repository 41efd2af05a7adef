"""MPEG transport streams where their counters jump: segments put together, and broadcasts with holes."""

from pathlib import Path

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, decoded_video, pictures, tones

PACKET = 188
X264 = ("-c:v", "libx264", "-preset", "veryfast", "-g", "12", "-bf", "2", "-pix_fmt", "yuv420p")
SEGMENTS = {
    "h264.ts": (*pictures(duration=1.28), *tones(48000, 1.28), *X264, "-c:a", "aac"),
    "mpeg2.ts": (*pictures(duration=1.28), "-c:v", "mpeg2video", "-g", "12", "-bf", "2"),
}
TOLERANT = spdl.io.demux_config(tolerate_errors=True)


def joined(name: str, folder: Path) -> Path:
    """The same segment three times, as ``cat`` does it."""
    path = folder / name
    path.write_bytes(clip(name, *SEGMENTS[name]).read_bytes() * 3)
    return path


def with_holes() -> bytes:
    """Four seconds of which four pieces of seven packets are missing."""
    path = clip("whole.ts", *pictures("320x240", duration=3.84), *X264)
    data = path.read_bytes()
    packets = [data[at : at + PACKET] for at in range(0, len(data), PACKET)]
    lost = {start + index for start in (300, 520, 740, 960) for index in range(7)}
    return b"".join(packet for index, packet in enumerate(packets) if index not in lost)


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_put_together_are_read_to_the_end(name: str, tmp_path: Path) -> None:
    """All 96 frames, as the ffmpeg tool reads them; nothing is missing, so nothing is an error."""
    path = joined(name, tmp_path)
    expected = decoded_video(path, "rgb24", (48, 64, 3))
    assert len(expected) == 96
    packets = spdl.io.demux_video(path, demux_config=TOLERANT)
    assert (len(packets), packets.num_errors) == (96, 0)
    frames = spdl.io.decode_packets(spdl.io.demux_video(path.read_bytes()))
    assert np.array_equal(spdl.io.to_numpy(spdl.io.convert_frames(frames)), expected)


def test_sound_of_segments_put_together_is_whole(tmp_path: Path) -> None:
    """As many samples as three times one."""
    segment = clip("h264.ts", *SEGMENTS["h264.ts"])
    one = spdl.io.to_numpy(spdl.io.load_audio(segment)).shape[1]
    assert spdl.io.to_numpy(spdl.io.load_audio(joined("h264.ts", tmp_path))).shape[1] == 3 * one


def test_segments_read_in_parts_are_whole_too(tmp_path: Path) -> None:
    """Streams beside each other stay complete."""
    with spdl.io.Demuxer(joined("h264.ts", tmp_path)) as demuxer:
        chunks = list(demuxer.streaming_demux([0, 1], num_packets=10))
        counts = [sum(len(chunk[index]) for chunk in chunks if index in chunk) for index in (0, 1)]
    assert counts == [96, len(spdl.io.demux_audio(joined("h264.ts", tmp_path)))]


def test_a_hole_is_an_error() -> None:
    """Nothing is lost silently."""
    with pytest.raises(spdl.io.DemuxError, match="damaged or cut off"):
        spdl.io.demux_video(with_holes())


def test_tolerance_goes_on_behind_a_hole() -> None:
    """To the end, and counts what it met."""
    packets = spdl.io.demux_video(with_holes(), demux_config=TOLERANT)
    assert packets.num_errors == 4
    assert max(packets.get_timestamps()) - min(packets.get_timestamps()) > 3.7
    frames = spdl.io.decode_packets(packets, decode_config=spdl.io.decode_config(tolerate_errors=True))
    assert len(frames) >= 88
    assert frames.num_errors > 0


def test_a_piece_missing_before_a_key_frame_is_an_error() -> None:
    """Though time goes on without a gap: the last picture is not whole."""
    path = clip("whole.ts", *pictures("320x240", duration=3.84), *X264)
    data = path.read_bytes()
    starts = [at for at in range(0, len(data), PACKET) if data[at + 1] & 0x40 and pid(data, at) == 256]
    last = max(at for at in range(starts[11], starts[12], PACKET) if pid(data, at) == 256)
    with pytest.raises(spdl.io.DemuxError):
        spdl.io.demux_video(data[:last] + data[last + PACKET :])


def pid(data: bytes, at: int) -> int:
    return (data[at + 1] & 0x1F) << 8 | data[at + 2]
