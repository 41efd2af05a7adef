"""What ``probe`` says about a file, compared with ffprobe."""

import copy
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, decoded_video, ffmpeg_command, h264, output_about, pictures, tones, turned

_SOUND = "-c:a", "aac"


def _film() -> Path:
    return clip("film.mp4", *pictures(), *tones(44100, 2, "sin(440*2*PI*t)|sin(880*2*PI*t)"), "-c:v", "libx264",
                "-vf", "setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709",  # as FFmpeg 7 wants
                "-pix_fmt", "yuv420p", "-color_primaries", "bt709", "-color_trc", "bt709", "-colorspace", "bt709",
                *_SOUND, "-metadata", "title=Käse", "-metadata:s:a", "language=deu")  # fmt: skip


def _turned(degrees: int) -> Path:
    return clip("turned.mp4", *turned(h264(), degrees))


def _ffprobe(path: Path) -> dict[str, Any]:
    command = ["ffprobe", "-v", "error", "-show_format", "-show_streams", "-of", "json", str(path)]
    facts: dict[str, Any] = json.loads(output_about(path, command))
    return facts


def test_probe_agrees_with_ffprobe() -> None:
    """Every fact about a film with sound is what ffprobe says."""
    info, facts = spdl.io.probe(_film()), _ffprobe(_film())
    assert (info.format, info.tags["title"]) == (facts["format"]["format_name"], "Käse")
    assert info.duration == pytest.approx(float(facts["format"]["duration"]))
    for stream, of in zip(info.streams, facts["streams"], strict=True):
        assert (stream.index, stream.type, stream.codec, stream.profile) == (
            of["index"], of["codec_type"], of["codec_name"], of["profile"])  # fmt: skip
        assert (stream.num_frames, stream.bit_rate) == (int(of["nb_frames"]), int(of["bit_rate"]))
        assert stream.duration == pytest.approx(float(of["duration"]))
        assert stream.start == pytest.approx(float(of["start_time"]))
        assert stream.time_base == Fraction(of["time_base"])
    video, audio = info.video, info.audio
    assert video is info.streams[0]
    assert audio is info.streams[1]
    of = facts["streams"][0]
    assert (video.width, video.height, video.pix_fmt) == (of["width"], of["height"], of["pix_fmt"])
    assert video.frame_rate == Fraction(of["avg_frame_rate"])
    assert video.color_space == video.color_primaries == video.color_trc == "bt709"
    assert (video.rotation, video.is_mirrored, video.is_cover) == (0, False, False)
    of = facts["streams"][1]
    assert (audio.sample_rate, audio.num_channels) == (int(of["sample_rate"]), of["channels"])
    assert (audio.channel_layout, audio.sample_fmt) == (of["channel_layout"], of["sample_fmt"])
    assert audio.tags["language"] == "deu"


@pytest.mark.parametrize("tag", [90, 180, 270])
def test_rotation_is_what_players_apply(tag: int) -> None:
    """Stored pictures turned by ``rotation`` are what the ffmpeg tool shows."""
    path = _turned(tag)
    video = spdl.io.probe(path).video
    assert video is not None
    assert not video.is_mirrored
    stored = decoded_video(path, "rgb24", (48, 64, 3))[0]
    upright = np.rot90(stored, -video.rotation // 90)
    command = ffmpeg_command("-i", path, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    shown = output_about(path, command)
    assert np.array_equal(np.frombuffer(shown, np.uint8).reshape(upright.shape), upright)


@pytest.mark.parametrize("name", ["tone.wav", "tone.flac", "tone.mp3", "tone.ogg"])
def test_sounds_without_pictures_have_no_video(name: str) -> None:
    """A file of sound has its rate, its number of channels and its duration."""
    info = spdl.io.probe(clip(name, *tones(44100, 1.5)))
    assert info.video is None
    assert info.audio is not None
    assert (info.audio.sample_rate, info.audio.num_channels, info.audio.channel_layout) == (44100, 1, "mono")
    assert info.duration == pytest.approx(1.5, abs=0.06)


def test_an_image_has_a_size_and_no_frame_rate() -> None:
    """One picture has no frame rate, though FFmpeg makes one up."""
    video = spdl.io.probe(clip("one.png", *pictures(duration=0.04))).video
    assert video is not None
    assert (video.codec, video.width, video.height, video.frame_rate) == ("png", 64, 48, None)


def test_printing_shows_the_streams() -> None:
    """The text has a line for the container, its tags and each stream; so has that of a demuxer."""
    text = str(spdl.io.probe(_film(), name="film"))
    assert text.startswith("film: mov,mp4")
    assert "title: Käse" in text
    assert "[0] video: h264 (High), 64x48, 25 fps, yuv420p, tv/bt709/bt709/bt709, 2.000 s" in text
    assert "[1] audio: aac (LC), 44100 Hz, stereo, fltp, 2.0" in text
    with spdl.io.Demuxer(_film(), name="film") as demuxer:
        assert str(demuxer) == text
        assert demuxer.info == spdl.io.probe(_film(), name="film")


def test_the_result_can_be_pickled_copied_and_hashed() -> None:
    """It is a value, so it can be sent to other processes and be a key."""
    info = spdl.io.probe(_film())
    for same in (pickle.loads(pickle.dumps(info)), copy.deepcopy(info)):
        assert same == info
        assert hash(same) == hash(info)


def test_data_in_memory_and_errors_are_those_of_a_demuxer(tmp_path: Path) -> None:
    """The source may be data; what is missing or no media raises as elsewhere."""
    assert spdl.io.probe(_film().read_bytes(), name="film") == spdl.io.probe(_film(), name="film")
    with pytest.raises(spdl.io.SourceNotFoundError):
        spdl.io.probe(tmp_path / "missing.mp4")
    with pytest.raises(spdl.io.OpenError):
        spdl.io.probe(b"no media at all")
    demuxer = spdl.io.Demuxer(_film())
    demuxer.close()
    with pytest.raises(spdl.io.ClosedError):
        demuxer.info  # noqa: B018


def _two_sounds() -> Path:
    return clip("two.mkv", *tones(8000, 1), *tones(16000, 1, "sin(220*2*PI*t)|0"), "-map", "0", "-map", "1",
                "-c:a", "flac", "-disposition:a:0", "default")  # fmt: skip


def test_any_stream_can_be_chosen() -> None:
    """A stream is chosen by its index, for packets and for its codec."""
    with spdl.io.Demuxer(_two_sounds()) as demuxer:
        assert [stream.codec for stream in demuxer.info.streams] == ["flac", "flac"]
        for index, (rate, channels) in enumerate([(8000, 1), (16000, 2)]):
            packets = demuxer.demux_audio(stream=index)
            codec: Any = demuxer.codec(index)
            assert (packets.sample_rate, packets.num_channels) == (rate, channels)
            assert (codec.sample_rate, codec.num_channels) == (rate, channels)
            assert len(spdl.io.decode_packets(packets)) == rate
            assert len(spdl.io.decode_packets(demuxer.demux_audio((0.25, 0.5), stream=index))) == rate // 4
        decoder: Any = spdl.io.Decoder(demuxer.codec(1))
        frames = [
            f
            for packets in demuxer.streaming_demux(1, num_packets=3)
            for f in decoder.streaming_decode_packets(packets)
        ]
        assert sum(map(len, [*frames, *decoder.flush()])) == 16000


@pytest.mark.parametrize("index", [-1, 2, 2**40])
def test_a_stream_that_is_not_there_is_named(index: int) -> None:
    """A bad index raises StreamNotFoundError; one of another type, too; what is no integer raises TypeError."""
    with spdl.io.Demuxer(_two_sounds()) as demuxer:
        with pytest.raises(spdl.io.StreamNotFoundError, match="there are 2 streams"):
            demuxer.demux_audio(stream=index)
        with pytest.raises(spdl.io.StreamNotFoundError, match="stream 1 is audio, not video"):
            demuxer.demux_video(stream=1)
        with pytest.raises(TypeError, match="stream must be an int"):
            demuxer.demux_audio(stream=True)
