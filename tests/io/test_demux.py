"""Packets from containers: whole streams, of files and of memory."""

import subprocess
from pathlib import Path

import pytest

import spdl.io
from tests.support.media import clip, h264, pictures, tones


def probed_packets(path: Path, stream: str) -> list[float]:
    """What ffprobe says of the time of each packet of a stream."""
    command = [
        "ffprobe",
        "-v",
        "error",
        "-select_streams",
        stream,
        "-show_entries",
        "packet=pts_time",
        "-of",
        "csv=p=0",
    ]
    text = subprocess.run([*command, str(path)], capture_output=True, check=True, text=True).stdout
    return [float(line.strip(",")) for line in text.split()]


def with_sound() -> Path:
    """Two seconds of pictures and sound."""
    return clip("both.mp4", *pictures(), *tones(), "-c:v", "libx264", "-g", "12", "-pix_fmt", "yuv420p", "-c:a", "aac")


def test_video_packets_are_those_that_ffprobe_lists() -> None:
    """All of them, in the order of the container."""
    packets = spdl.io.demux_video(h264())
    assert packets.get_timestamps(raw=True) == pytest.approx(probed_packets(h264(), "v:0"), abs=1e-6)
    assert packets.get_timestamps() == sorted(packets.get_timestamps(raw=True))
    assert len(packets) == 50


def test_audio_packets_are_counted() -> None:
    """As ffprobe counts them."""
    assert len(spdl.io.demux_audio(with_sound())) == len(probed_packets(with_sound(), "a:0"))


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview"])
def test_data_in_memory_gives_the_same_packets(kind: str) -> None:
    """As the file that it was read from."""
    data = h264().read_bytes()
    source = {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}[kind](data)
    assert spdl.io.demux_video(source).get_timestamps() == spdl.io.demux_video(h264()).get_timestamps()
