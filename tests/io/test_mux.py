"""Muxers: files that the ffmpeg tool reads."""

import gc
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import spdl.io
from tests.io.muxing import CONFIG, SOUND, noise, packets_of, video_muxer
from tests.support.media import clip, decoded_video, h264, pictures, probed_frames, run_ffmpeg, tones


def av_clip() -> Path:
    """A second of video with B-frames and of stereo sound."""
    sound = tones(44100, 1.0, "sin(440*2*PI*t)|sin(880*2*PI*t)")
    video = ("-c:v", "libx264", "-g", "12", "-bf", "2", "-pix_fmt", "yuv420p")
    return clip("av.mp4", *pictures(duration=1.0), *sound, *video, "-c:a", "aac")


def checksums(path: Path) -> dict[str, int]:
    """Of every frame, as the ffmpeg tool decodes them, its time stamp."""
    lines = run_ffmpeg("-i", path, "-map", "0:v?", "-map", "0:a?", "-f", "framemd5", "-").decode().splitlines()
    rows = [line.replace(" ", "").split(",") for line in lines if not line.startswith("#")]
    return {f"{stream} {md5}": int(pts) for stream, _, pts, _, _, md5 in rows}


def shown(path: Path, *entries: str) -> str:
    """What ffprobe says of the streams."""
    command = ["ffprobe", "-v", "error", "-show_entries", f"stream={','.join(entries)}", "-of", "csv=p=0", str(path)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


@pytest.mark.parametrize("name", ["copy.mp4", "copy.mkv", "copy.ts", "copy.mov", "copy.nut"])
@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_remuxed_clip_is_what_the_ffmpeg_tool_copies(tmp_path: Path, name: str, is_streaming: bool) -> None:
    """Every frame, sample and time of both streams is that of ``ffmpeg -c copy``, which rounds some twice."""
    with spdl.io.Demuxer(str(av_clip())) as demuxer:
        muxer = spdl.io.Muxer(tmp_path / name)
        muxer.add_remux_stream(demuxer.video_codec)
        muxer.add_remux_stream(demuxer.audio_codec)
        order = {demuxer.video_stream_index: 0, demuxer.audio_stream_index: 1}
        with muxer.open():
            if is_streaming:
                for chunk in demuxer.streaming_demux(set(order), num_packets=10):
                    for index, packets in chunk.items():
                        muxer.write(order[index], packets)
            else:
                muxer.write(1, demuxer.demux_audio())
                muxer.write(0, demuxer.demux_video())
    judge = clip(name, "-i", str(av_clip()), "-c", "copy")
    assert checksums(tmp_path / name) == pytest.approx(checksums(judge), abs=1)
    entries = ("codec_name", "codec_tag_string", "profile", "avg_frame_rate", "sample_aspect_ratio", "channel_layout")
    assert shown(tmp_path / name, *entries) == shown(judge, *entries)


def test_a_turned_clip_stays_turned(tmp_path: Path) -> None:
    """What the container says of how to show it goes along."""
    source = tmp_path / "turned.mp4"
    run_ffmpeg("-i", h264(), "-c", "copy", "-metadata:s:v", "rotate=90", source)
    with spdl.io.Demuxer(str(source)) as demuxer:
        muxer = spdl.io.Muxer(tmp_path / "copy.mp4")
        muxer.add_remux_stream(demuxer.video_codec)
        with muxer.open():
            muxer.write(0, demuxer.demux_video())
    sides = [probed_frames(path)[0]["side_data_list"] for path in (source, tmp_path / "copy.mp4")]
    assert sides[0] == sides[1]


def test_streams_are_interleaved(tmp_path: Path) -> None:
    """All video first, all sound then: in the file they alternate, and both come back as they were."""
    path = tmp_path / "out.mkv"
    muxer = spdl.io.Muxer(path)
    video = muxer.add_encode_stream(CONFIG, encoder="ffv1")
    audio = muxer.add_encode_stream(SOUND, encoder="pcm_s16le")
    array = np.random.default_rng(1).integers(0, 256, (25, 3, 32, 32), np.uint8)
    wave = np.arange(8000, dtype=np.int16)[:, None]
    with muxer.open():
        for i in range(25):
            muxer.write(0, video.encode(spdl.io.create_reference_video_frame(array[i : i + 1], "yuv444p", (25, 1), i)))  # type: ignore[arg-type]  # it has no delay
        for i in range(0, 8000, 320):
            muxer.write(1, audio.encode(spdl.io.create_reference_audio_frame(wave[i : i + 320], "s16", 8000, i)))  # type: ignore[arg-type]  # it has no delay
    assert np.array_equal(decoded_video(path, "yuv444p", (3, 32, 32)), array)
    raw = run_ffmpeg("-i", path, "-map", "0:a", "-f", "s16le", "-")
    assert np.array_equal(np.frombuffer(raw, np.int16), wave[:, 0])
    command = ["ffprobe", "-v", "error", "-show_entries", "packet=stream_index", "-of", "csv=p=0", str(path)]
    indices = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert indices == ["0", "1"] * 25


def test_nothing_is_made_before_open(tmp_path: Path) -> None:
    """A muxer that is not opened leaves no file."""
    path = tmp_path / "out.mkv"
    muxer = video_muxer(path)
    assert not path.exists()
    with muxer.open() as opened:
        assert opened is muxer
        assert path.exists()
    spdl.io.Muxer(tmp_path / "other.mkv").close()
    assert list(tmp_path.iterdir()) == [path]


def test_writing_leaves_packets_as_they_are(tmp_path: Path) -> None:
    """They can be written to another file, and decoded."""
    packets = packets_of(3)
    for name in ("a.mkv", "b.mkv"):
        with video_muxer(tmp_path / name).open() as muxer:
            muxer.write(0, packets)
    assert checksums(tmp_path / "a.mkv") == checksums(tmp_path / "b.mkv")
    assert len(spdl.io.decode_packets(packets)) == 3
    with video_muxer(tmp_path / "c.mkv").open() as muxer, pytest.raises(spdl.io.ConsumedError):
        muxer.write(0, packets)


def test_close_finishes_what_flush_did_not(tmp_path: Path) -> None:
    """Both give the same file, however often they are called."""
    for name in ("a.mkv", "b.mkv"):
        muxer = video_muxer(tmp_path / name).open({"fflags": "+bitexact"})
        muxer.write(0, packets_of(2))
        if name == "a.mkv":
            muxer.flush()
            muxer.flush()
        muxer.close()
        muxer.close()
    assert (tmp_path / "a.mkv").read_bytes() == (tmp_path / "b.mkv").read_bytes()
    assert len(probed_frames(tmp_path / "a.mkv")) == 2


def test_a_block_that_fails_keeps_its_error(tmp_path: Path) -> None:
    """The file has what was written, and the error is the block's."""

    def fail(muxer: spdl.io.Muxer) -> None:
        with muxer.open():
            muxer.write(0, packets_of(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(video_muxer(tmp_path / "out.mkv"))
    assert len(probed_frames(tmp_path / "out.mkv")) == 2
    with pytest.raises(ZeroDivisionError) as caught:
        fail(video_muxer("/dev/full", format="matroska"))
    assert "No space left on device" in caught.value.__notes__[0]


def test_the_format_can_be_named(tmp_path: Path) -> None:
    """Then the extension does not matter."""
    with video_muxer(tmp_path / "out.bin", format="nut").open() as muxer:
        muxer.write(0, packets_of(2))
    assert (tmp_path / "out.bin").read_bytes().startswith(b"nut/multimedia container")


def test_a_series_of_images_can_be_written(tmp_path: Path) -> None:
    """A pattern in the name makes one file for each picture."""
    array = np.random.default_rng(2).integers(0, 256, (3, 8, 9, 3), np.uint8)
    muxer = spdl.io.Muxer(tmp_path / "%02d.png")
    encoder = muxer.add_encode_stream(spdl.io.video_encode_config(height=8, width=9, frame_rate=(1, 1)))
    with muxer.open():
        for packets in (
            encoder.encode(spdl.io.create_reference_video_frame(array, "rgb24", (1, 1), 0)),
            encoder.flush(),
        ):
            if packets is not None:
                muxer.write(0, packets)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01.png", "02.png", "03.png"]
    assert np.array_equal(decoded_video(tmp_path / "02.png", "rgb24", (8, 9, 3))[0], array[1])


def test_paths_of_any_kind(tmp_path: Path) -> None:
    """Text, path-likes, letters of any alphabet and none; nothing else."""
    for name in ("grün ☃.mkv", os.fsdecode(b"\xff.mkv"), "a:b.mkv"):
        path = tmp_path / name
        for each in (path, str(path)):
            with video_muxer(each).open() as muxer:
                muxer.write(0, packets_of(1))
            assert path.read_bytes().startswith(b"\x1aE\xdf\xa3")
    for bad in (b"x.mkv", 3, None):
        with pytest.raises(TypeError):
            spdl.io.Muxer(bad)  # type: ignore[arg-type]  # the error is what is tested
    with pytest.raises(ValueError, match="null characters"):
        spdl.io.Muxer("a\0.mkv")


@pytest.mark.needs("encoder libx264")
def test_encoder_and_muxer_go_in_any_order(tmp_path: Path) -> None:
    """Neither needs the other, before or after the file is made."""
    muxer = spdl.io.Muxer(tmp_path / "out.mp4")
    encoder = muxer.add_encode_stream(CONFIG)
    del muxer
    gc.collect()
    encoder.encode(noise(2))
    assert encoder.flush() is not None
    muxer = spdl.io.Muxer(tmp_path / "out.mp4")
    encoder = muxer.add_encode_stream(CONFIG)
    packets = [encoder.encode(noise(2)), encoder.flush()]
    del encoder
    gc.collect()
    with muxer.open():
        for each in packets:
            if each is not None:
                muxer.write(0, each)
    assert len(probed_frames(tmp_path / "out.mp4")) == 2


def test_an_open_muxer_that_is_dropped_closes_its_file(tmp_path: Path) -> None:
    """The leak check of every test sees that the descriptor is gone."""
    muxer = video_muxer(tmp_path / "out.mkv").open()
    muxer.write(0, packets_of(1))
    del muxer


def test_a_muxer_serves_one_thread_at_a_time(tmp_path: Path) -> None:
    """Whoever comes at the wrong moment gets an error, and what was accepted is in the file."""
    muxer = video_muxer(tmp_path / "out.mkv").open()
    start = threading.Barrier(4)
    accepted: list[int] = []
    refused: list[str] = []

    def write(first: int) -> None:
        each = [packets_of(1, first + 4 * i) for i in range(20)]
        start.wait()
        for packets in each:
            try:
                muxer.write(0, packets)
            except spdl.io.MediaError as exc:
                refused.append(str(exc))
            else:
                accepted.append(1)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    muxer.close()
    assert all("another thread" in each or "increasing dts" in each for each in refused)
    assert len(probed_frames(tmp_path / "out.mkv")) == len(accepted)


@pytest.mark.needs("encoder libx264")
@pytest.mark.parametrize("name", ["shifted.mp4", "shifted.mov", "shifted.mkv", "shifted.nut"])
def test_pictures_before_zero_are_shifted_and_not_hidden(tmp_path: Path, name: str) -> None:
    """30 are written, 30 are read, one every 1/25 s."""
    muxer = spdl.io.Muxer(tmp_path / name)
    encoder = muxer.add_encode_stream(CONFIG, encoder="libx264", encoder_config={"preset": "ultrafast"})
    with muxer.open():
        for packets in (encoder.encode(noise(30, -10)), encoder.flush()):
            if packets is not None:
                muxer.write(0, packets)
    times = spdl.io.decode_packets(spdl.io.demux_video(tmp_path / name)).get_timestamps()
    assert times == pytest.approx([times[0] + index / 25 for index in range(30)], abs=1e-3)
    assert times[0] >= 0


@pytest.mark.needs("encoder libx264")
def test_streams_before_zero_are_shifted_together(tmp_path: Path) -> None:
    """Whichever is written first, and by the one that begins earliest."""
    samples = np.zeros((8000, 1), np.int16)
    samples[4000] = 20000
    sound = spdl.io.create_reference_audio_frame(samples, "s16", 8000, -6000)
    muxer = spdl.io.Muxer(tmp_path / "both.mov")
    picture_encoder = muxer.add_encode_stream(CONFIG, encoder="libx264")
    sound_encoder = muxer.add_encode_stream(SOUND, encoder="pcm_s16le")
    with muxer.open():
        for pictures_out in (picture_encoder.encode(noise(10, -5)), picture_encoder.flush()):
            if pictures_out is not None:
                muxer.write(0, pictures_out)
        for samples_out in (sound_encoder.encode(sound), sound_encoder.flush()):
            if samples_out is not None:
                muxer.write(1, samples_out)
    times = spdl.io.decode_packets(spdl.io.demux_video(tmp_path / "both.mov")).get_timestamps()
    assert times == pytest.approx([0.55 + index / 25 for index in range(10)])
    heard = spdl.io.to_numpy(spdl.io.load_audio(tmp_path / "both.mov"))
    assert heard.shape[1] == 8000
    assert np.argmax(heard[0]) == 4000
