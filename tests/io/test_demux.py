"""Packets from containers: whole streams, of files and of memory; which stream is chosen."""

import gc
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, h264, pictures, run_ffmpeg, tones


def probed(path: Path, stream: str, what: str = "packet=pts_time") -> list[str]:
    """What ffprobe says of a stream, a line each."""
    command = ["ffprobe", "-v", "error", "-select_streams", stream, "-show_entries", what, "-of", "csv=p=0", str(path)]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return [line.strip(",") for line in text.split()]


def with_sound() -> Path:
    """Two seconds of pictures and sound."""
    return clip("both.mp4", *pictures(), *tones(), "-c:v", "libx264", "-g", "12", "-pix_fmt", "yuv420p", "-c:a", "aac")


def sound() -> Path:
    """Two seconds of sound alone."""
    return clip("tone.wav", *tones())


def picture(name: str = "one.png") -> Path:
    """One picture."""
    return clip(name, *pictures(duration=1, rate="1"), "-frames:v", "1")


def song_with_cover() -> Path:
    """Sound, and a cover of 40x30."""
    song = clip("song.mp3", *tones(), "-c:a", "libmp3lame")
    cover = clip("cover.png", *pictures("40x30", "1", 1), "-frames:v", "1")
    return clip("cover.mp3", "-i", str(song), "-i", str(cover), "-map", "0:a", "-map", "1:v", "-c", "copy",
                "-disposition:v:0", "attached_pic")  # fmt: skip


# --------------------------------------------------------------------------------------------------------- packets


def test_video_packets_are_those_that_ffprobe_lists() -> None:
    """All of them, in the order of the container."""
    packets = spdl.io.demux_video(h264())
    times = [float(each) for each in probed(h264(), "v:0")]
    assert packets.get_timestamps(raw=True) == pytest.approx(times, abs=1e-6)
    assert packets.get_timestamps() == sorted(packets.get_timestamps(raw=True))
    assert len(packets) == 50


@pytest.mark.parametrize("name", ["aac.m4a", "mp3.mp3", "opus.ogg", "vorbis.ogg", "flac.flac", "pcm.wav", "aac.mkv"])
def test_audio_packets_are_those_that_ffprobe_lists(name: str) -> None:
    """Whether or not libav had to look into the stream first."""
    codec = {"opus.ogg": ("-c:a", "libopus"), "aac.mkv": ("-c:a", "aac")}.get(name, ())
    path = clip(name, *tones(48000, 1), *codec)
    assert len(spdl.io.demux_audio(path)) == len(probed(path, "a:0"))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_data_in_memory_gives_the_same_packets(kind: Any) -> None:
    """As the file that it was read from."""
    packets = spdl.io.demux_video(kind(h264().read_bytes()))
    assert packets.get_timestamps() == spdl.io.demux_video(h264()).get_timestamps()


def test_tensors_are_read_through_their_array() -> None:
    """Anything with a method ``numpy`` that gives one."""

    class Tensor:
        def numpy(self) -> Any:
            return np.frombuffer(h264().read_bytes(), np.uint8)

    assert len(spdl.io.demux_video(Tensor())) == 50  # type: ignore[arg-type]


def test_a_path_like_and_a_name_with_a_colon_are_files(tmp_path: Path) -> None:
    """What stands before the colon is no protocol if there is such a file."""
    path = tmp_path / "a:b.mp4"
    shutil.copy(h264(), path)
    assert len(spdl.io.demux_video(path)) == len(spdl.io.demux_video(str(path))) == 50


def test_memory_is_held_until_the_demuxer_is_closed() -> None:
    """A bytearray cannot be resized meanwhile, and can afterwards."""
    data = bytearray(h264().read_bytes())
    with spdl.io.Demuxer(data) as demuxer:
        with pytest.raises(BufferError):
            data.append(0)
        packets = demuxer.demux_video()
    data.append(0)
    data[:] = bytes(len(data))
    assert len(spdl.io.decode_packets(packets)) == 50


def test_a_demuxer_keeps_its_source() -> None:
    """It may be all that is left of it, and lets go of it when it goes."""

    class Data(bytearray):
        """Can be referred to weakly."""

    data = Data(h264().read_bytes())
    alive = weakref.ref(data)
    demuxer = spdl.io.Demuxer(data)
    del data
    gc.collect()
    assert alive() is not None
    assert len(demuxer.demux_video()) == 50
    del demuxer
    gc.collect()
    assert alive() is None


def test_calls_can_be_repeated_in_any_order() -> None:
    """Each starts anew."""
    with spdl.io.Demuxer(with_sound()) as demuxer:
        first = (len(demuxer.demux_video()), len(demuxer.demux_audio()))
        demuxer.demux_image()
        demuxer.demux_video((0.5, 1))
        second = (len(demuxer.demux_audio()), len(demuxer.demux_video()))
    assert first == second[::-1]


# --------------------------------------------------------------------------------------------------------- streams


def test_streams_and_codecs_are_described() -> None:
    """As ffprobe does."""
    with spdl.io.Demuxer(with_sound()) as demuxer:
        assert demuxer.has_audio()
        assert (demuxer.video_stream_index, demuxer.audio_stream_index) == (0, 1)
        video, audio, image = demuxer.video_codec, demuxer.audio_codec, demuxer.image_codec
    assert isinstance(video, spdl.io.VideoCodec)
    assert (video.name, video.width, video.height, video.pix_fmt) == ("h264", 64, 48, "yuv420p")
    assert (video.frame_rate, video.sample_aspect_ratio) == ((25, 1), (1, 1))
    assert "{}/{}".format(*video.time_base) == probed(with_sound(), "v:0", "stream=time_base")[0]
    assert isinstance(audio, spdl.io.AudioCodec)
    assert (audio.name, audio.sample_rate, audio.num_channels, audio.sample_fmt) == ("aac", 8000, 1, "fltp")
    assert (audio.time_base, audio.channel_layout) == ((1, 8000), "0x4")
    assert isinstance(image, spdl.io.ImageCodec)
    assert (image.name, image.width, image.height, image.pix_fmt) == ("h264", 64, 48, "yuv420p")
    assert not hasattr(image, "frame_rate")


@pytest.mark.parametrize("name", ["one.png", "one.jpg", "one.webp", "one.bmp", "one.tiff", "one.gif"])
def test_pictures_are_described_without_decoding_them_first(name: str) -> None:
    """Of the packets, and of the demuxer."""
    expected = probed(picture(name), "v:0", "stream=width,height,pix_fmt")[0].split(",")
    packets = spdl.io.demux_image(picture(name))
    assert [str(packets.width), str(packets.height), packets.pix_fmt] == expected
    with spdl.io.Demuxer(picture(name)) as demuxer:
        codec = demuxer.image_codec
        assert [str(codec.width), str(codec.height), codec.pix_fmt] == expected
        assert demuxer.demux_image().pix_fmt == expected[2]


def test_an_image_is_a_video_of_one_packet_and_a_video_has_a_first_picture() -> None:
    """Both ways."""
    assert len(spdl.io.demux_video(picture())) == 1
    assert len(spdl.io.demux_video(picture(), timestamp=(0, 1))) == 1
    assert len(spdl.io.demux_video(picture(), timestamp=(1, 2))) == 0
    image = spdl.io.demux_image(h264())
    assert isinstance(image, spdl.io.ImagePackets)
    assert (image.width, image.height) == (64, 48)


def test_an_animated_png_is_a_video() -> None:
    """Though it begins as a picture does."""
    path = clip("moving.apng", *pictures(duration=0.2), "-f", "apng")
    assert len(spdl.io.demux_video(path)) == len(probed(path, "v:0")) == 5


def test_a_cover_is_a_picture_and_no_video() -> None:
    """It is what ``demux_image`` gives where there is nothing else."""
    with spdl.io.Demuxer(song_with_cover()) as demuxer:
        image = demuxer.demux_image()
        assert (image.width, image.height) == (40, 30)
        with pytest.raises(spdl.io.StreamNotFoundError, match="No video stream was found in"):
            demuxer.demux_video()
        assert len(demuxer.demux_audio()) > 10


@pytest.mark.parametrize("kind", ["audio", "video", "image"])
def test_a_missing_stream_is_named(kind: str) -> None:
    """It is a ``RuntimeError`` and a ``LookupError``; the source is known."""
    path = h264() if kind == "audio" else sound()
    with pytest.raises(spdl.io.StreamNotFoundError, match=f"No {kind} stream was found in .*{path.name}") as caught:
        getattr(spdl.io, f"demux_{kind}")(path)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, LookupError)
    assert caught.value.source == str(path)
    with spdl.io.Demuxer(path) as demuxer:
        assert demuxer.has_audio() is (kind != "audio")
        with pytest.raises(spdl.io.StreamNotFoundError):
            getattr(demuxer, f"{kind}_codec")
        if kind != "image":
            with pytest.raises(spdl.io.StreamNotFoundError):
                getattr(demuxer, f"{kind}_stream_index")


def test_wav_written_to_a_pipe_is_whole() -> None:
    """Who wrote it could not go back to say how long it is."""
    data = run_ffmpeg(*tones(duration=0.5), "-f", "wav", "-")
    assert len(spdl.io.demux_audio(data)) == len(spdl.io.demux_audio(clip("half.wav", *tones(duration=0.5))))


@pytest.mark.needs("demuxer dts")
def test_dts_in_wav_is_found() -> None:
    """The samples of such a file are none."""
    path = clip("dts.wav", *tones(48000, 1), "-c:a", "dca", "-strict", "-2", "-ac", "2", "-f", "dts")
    data = path.read_bytes()
    wrapped = run_ffmpeg("-f", "s16le", "-ar", "48000", "-ac", "2", "-i", path, "-c", "copy", "-f", "wav", "-")
    assert len(wrapped) > len(data)
    assert spdl.io.demux_audio(wrapped).codec is not None
    with spdl.io.Demuxer(wrapped) as demuxer:
        assert demuxer.audio_codec.name == "dts"


def test_data_without_a_header_needs_its_format() -> None:
    """Raw pictures, with the options of that format."""
    config = spdl.io.demux_config("rawvideo", {"video_size": "4x2", "pixel_format": "rgb24"})
    packets = spdl.io.demux_video(bytes(4 * 2 * 3 * 5), demux_config=config)
    assert (len(packets), packets.width, packets.height, packets.pix_fmt) == (5, 4, 2, "rgb24")


@pytest.mark.parametrize("size", [1, 7, 100000])
def test_any_buffer_size_gives_the_same(size: int) -> None:
    """It is a matter of speed alone."""
    config = spdl.io.demux_config(buffer_size=size)
    assert len(spdl.io.demux_video(h264().read_bytes(), demux_config=config)) == 50


def test_references_are_given_back() -> None:
    """A thousand demuxers leave no count behind."""
    data = picture().read_bytes()
    before = sys.getrefcount(data)
    for _ in range(1000):
        spdl.io.demux_image(data)
    assert sys.getrefcount(data) == before
