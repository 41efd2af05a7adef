"""A late window of sound reads the file around it, and not all that is before."""

from pathlib import Path

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip

NOISE = ("-f", "lavfi", "-i", "anoisesrc=duration=60:sample_rate=44100:seed=1:amplitude=0.3")
# name of the clip: what encodes it
CLIPS = {
    "pcm.wav": ("-c:a", "pcm_s16le"),
    "pcm.w64": ("-c:a", "pcm_s16le"),
    "pcm.aiff": (),
    "pcm.au": ("-c:a", "pcm_s16be"),
    "flac.flac": (),
    "mp3.mp3": ("-c:a", "libmp3lame", "-b:a", "320k"),
    "vorbis.ogg": ("-c:a", "libvorbis", "-q:a", "9"),
    "opus.ogg": ("-c:a", "libopus", "-b:a", "200k"),
    "aac.flv": ("-c:a", "aac", "-b:a", "256k", "-aac_pns", "0"),
    "mp3.flv": ("-c:a", "libmp3lame", "-b:a", "320k"),
}


def bytes_read() -> int:
    """By this process so far, by calls that read."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("name", CLIPS)
def test_a_late_window_reads_little_and_is_exact(name: str) -> None:
    """The samples are those of the whole."""
    path = clip(name, *NOISE, *CLIPS[name])
    whole = spdl.io.to_numpy(spdl.io.load_audio(path))
    rate = spdl.io.demux_audio(path).sample_rate
    before = bytes_read()
    part = spdl.io.to_numpy(spdl.io.load_audio(path, (55, 55.1)))
    assert bytes_read() - before < path.stat().st_size * 0.6
    assert np.array_equal(part, whole[:, 55 * rate : 55 * rate + rate // 10])


@pytest.mark.parametrize("name", ["pcm.wav", "flac.flac", "mp3.mp3", "vorbis.ogg", "aac.flv", "mp3.flv"])
def test_windows_in_any_order_are_exact(name: str) -> None:
    """Of one demuxer, also the last samples."""
    path = clip(name, *NOISE, *CLIPS[name])
    whole = spdl.io.to_numpy(spdl.io.load_audio(path))
    first = 1105 if name == "mp3.mp3" else 0
    with spdl.io.Demuxer(path) as demuxer:
        for start in (59.5, 3.25, 32.0, 0.5, 59.75):
            frames = spdl.io.decode_packets(demuxer.demux_audio((start, start + 0.5)))
            begin = int(start * 44100) - first
            array = spdl.io.to_numpy(spdl.io.convert_frames(frames))
            assert np.array_equal(array, whole[:, begin : begin + 22050]), start


@pytest.mark.parametrize("name", ["vbr.mp3", "bare.mp3"])
def test_mp3_without_a_constant_bit_rate_is_read_once(name: str) -> None:
    """The first late window reads the headers before it, the later ones find their place by these."""
    arguments = {"vbr.mp3": ("-q:a", "4"), "bare.mp3": ("-b:a", "320k", "-write_xing", "0")}[name]
    path = clip(name, *NOISE, "-c:a", "libmp3lame", *arguments)
    size = path.stat().st_size
    whole = spdl.io.to_numpy(spdl.io.load_audio(path))
    first = 1105 if name == "vbr.mp3" else 0
    with spdl.io.Demuxer(path) as demuxer:
        for start, most in ((55.0, size * 1.1), (56.25, 250_000), (31.0, 250_000), (0.5, 250_000), (59.5, 250_000)):
            before = bytes_read()
            packets = demuxer.demux_audio((start, start + 0.1))
            assert bytes_read() - before < most, start
            begin = int(start * 44100) - first
            array = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets)))
            assert np.array_equal(array, whole[:, begin : begin + 4410]), start


@pytest.mark.parametrize("arguments", [("-b:a", "8k", "-ac", "1"), ("-q:a", "9", "-ac", "2")])
def test_mp3_frames_with_data_in_many_earlier_packets_are_exact(arguments: tuple[str, ...]) -> None:
    """At a low bit rate, the data of a loud frame after silence lies in the packets of a second."""
    source = "anoisesrc=duration=20:sample_rate=24000:seed=1:amplitude=0.3,volume='gte(mod(t,5),2.5)':eval=frame"
    path = clip(f"low{arguments[1]}.mp3", "-f", "lavfi", "-i", source, "-c:a", "libmp3lame", *arguments)
    whole = spdl.io.to_numpy(spdl.io.load_audio(path))
    for start in (2.5, 7.5, 12.5, 17.5):
        part = spdl.io.to_numpy(spdl.io.load_audio(path, (start, start + 0.25)))
        begin = int(start * 24000)
        assert np.array_equal(part, whole[:, begin : begin + 6000]), start


def test_mp3_joined_from_two_files_is_exact(tmp_path: Path) -> None:
    """Also behind the joint, and behind what is no frame."""
    path = clip("plain.mp3", *NOISE, "-c:a", "libmp3lame", "-q:a", "6", "-id3v2_version", "0", "-t", "5")
    joined = tmp_path / "joined.mp3"
    joined.write_bytes(path.read_bytes() * 2)
    whole = spdl.io.to_numpy(spdl.io.load_audio(joined))
    for start in (4.0, 6.0, 9.5):
        part = spdl.io.to_numpy(spdl.io.load_audio(joined, (start, start + 0.1)))
        begin = int(start * 44100)
        assert np.array_equal(part, whole[:, begin : begin + 4410]), start


FILM = ("-f", "lavfi", "-i", "testsrc2=s=128x96:r=25:d=40,noise=alls=60", "-f", "lavfi", "-i", "sine=d=40", "-g", "50")
FILMS = {
    "h264.flv": ("-c:v", "libx264", "-preset", "ultrafast", "-bf", "3"),
    "open.flv": ("-c:v", "libx264", "-preset", "superfast", "-bf", "3", "-x264-params", "open-gop=1"),
    "index.flv": ("-c:v", "flv1", "-flvflags", "add_keyframe_index"),
    "bare.flv": ("-c:v", "flv1", "-flvflags", "no_duration_filesize"),
}


@pytest.mark.parametrize("name", FILMS)
def test_a_late_window_of_a_film_in_flv_reads_little_and_is_exact(name: str) -> None:
    """With and without an index of key frames, and also where pictures refer to what is before a key frame."""
    path = clip(name, *FILM, *FILMS[name], "-pix_fmt", "yuv420p", "-b:v", "1500k", "-c:a", "aac")
    frames = spdl.io.decode_packets(spdl.io.demux_video(path))
    times = np.asarray(frames.get_timestamps())
    whole = spdl.io.to_numpy(spdl.io.convert_frames(frames))
    most = path.stat().st_size * (0.6 if name == "open.flv" else 0.4)  # there, two key frames are needed
    with spdl.io.Demuxer(path) as demuxer:
        for start, end in ((38.3, 38.7), (21.0, 21.25), (39.9, 50.0), (3.1, 3.15), (0.0, 0.2)):
            before = bytes_read()
            packets = demuxer.demux_video((start, end))
            assert bytes_read() - before < most, start
            part = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets)))
            assert np.array_equal(part, whole[(start <= times) & (times < end)]), start


def test_flv_whose_pictures_are_displayed_before_their_decoding_time_is_exact(tmp_path: Path) -> None:
    """Some encoders write composition times below zero. No picture at the end of a window is left out."""
    path = clip("early.flv", *FILM, *FILMS["h264.flv"], "-pix_fmt", "yuv420p", "-an")
    data = bytearray(path.read_bytes())
    position = 13
    while position < len(data):
        size = int.from_bytes(data[position + 1 : position + 4], "big")
        if data[position] == 9 and data[position + 12] == 1:
            composition = int.from_bytes(data[position + 13 : position + 16], "big") - 80
            data[position + 13 : position + 16] = (composition & 0xFFFFFF).to_bytes(3, "big")
        position += size + 15
    early = tmp_path / "early.flv"
    early.write_bytes(data)
    frames = spdl.io.decode_packets(spdl.io.demux_video(early))
    times = np.asarray(frames.get_timestamps())
    whole = spdl.io.to_numpy(spdl.io.convert_frames(frames))
    for start in np.arange(20.01, 22.0, 0.13):
        part = spdl.io.to_numpy(spdl.io.load_video(early, (start, start + 0.2)))
        assert np.array_equal(part, whole[(start <= times) & (times < start + 0.2)]), start
