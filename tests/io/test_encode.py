"""Encoders: what comes out of them, judged by the ffmpeg tool."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import clip, decoded_video, h264, probed_frames, run_ffmpeg, tones

HEIGHT, WIDTH = 34, 50


def video_config(**options: Any) -> spdl.io.VideoEncodeConfig:
    """50x34 pictures of yuv444p, 25 a second, unless told otherwise."""
    return spdl.io.video_encode_config(
        **{"height": HEIGHT, "width": WIDTH, "frame_rate": (25, 1), "pix_fmt": "yuv444p", **options}
    )


def audio_config(**options: Any) -> spdl.io.AudioEncodeConfig:
    """Two channels of s16 at 8000 Hz, unless told otherwise."""
    return spdl.io.audio_encode_config(**{"num_channels": 2, "sample_rate": 8000, "sample_fmt": "s16", **options})


def noise(num_frames: int, height: int = HEIGHT, width: int = WIDTH) -> NDArray[np.uint8]:
    """Planes of yuv444p."""
    return np.random.default_rng(0).integers(0, 256, (num_frames, 3, height, width), np.uint8)


def samples(num_samples: int, num_channels: int = 2) -> NDArray[np.int16]:
    """Samples of s16, packed."""
    return np.random.default_rng(0).integers(-(2**15), 2**15, (num_samples, num_channels), np.int16)


def pictures_at(array: NDArray[np.uint8], pts: int, rate: tuple[int, int] = (25, 1)) -> spdl.io.VideoFrames:
    """The planes as frames, from that frame number on."""
    return spdl.io.create_reference_video_frame(array, "yuv444p", rate, pts)


def sound_at(array: NDArray[np.int16], pts: int, rate: int = 8000) -> spdl.io.AudioFrames:
    """The samples as frames, from that sample on."""
    return spdl.io.create_reference_audio_frame(array, "s16", rate, pts)


def ffv1(tmp_path: Path, **options: Any) -> tuple[spdl.io.Muxer, spdl.io.VideoEncoder]:
    """A lossless encoder without delay, and its muxer."""
    muxer = spdl.io.Muxer(tmp_path / "out.mkv")
    return muxer, muxer.add_encode_stream(video_config(**options), encoder="ffv1")


def flac(tmp_path: Path, **options: Any) -> tuple[spdl.io.Muxer, spdl.io.AudioEncoder]:
    """A lossless encoder of 576 samples at a time, and its muxer."""
    muxer = spdl.io.Muxer(tmp_path / "out.mka")
    return muxer, muxer.add_encode_stream(audio_config(**options), encoder="flac")


def write_all(muxer: spdl.io.Muxer, encoder: Any, batches: Any) -> Path:
    """Encodes frames, and what the encoder holds back, into a file of one stream."""
    with muxer.open():
        for frames in batches:
            if (packets := encoder.encode(frames)) is not None:
                muxer.write(0, packets)
        if (packets := encoder.flush()) is not None:
            muxer.write(0, packets)
    return Path(repr(muxer).removeprefix("Muxer('").removesuffix("')"))


def read_samples(path: Path, num_channels: int = 2) -> NDArray[np.int16]:
    """What the ffmpeg tool decodes."""
    raw = run_ffmpeg("-i", path, "-f", "s16le", "-c:a", "pcm_s16le", "-")
    return np.frombuffer(raw, np.int16).reshape(-1, num_channels)


def packet_times(packets: spdl.io.AudioPackets, tmp_path: Path) -> list[float]:
    """When each packet starts, as ffprobe sees it in a file."""
    muxer = spdl.io.Muxer(tmp_path / "times.mka")
    assert packets.codec is not None
    muxer.add_remux_stream(packets.codec)
    with muxer.open():
        muxer.write(0, packets)
    return [float(frame["pts_time"]) for frame in probed_frames(tmp_path / "times.mka", "a:0")]


@pytest.mark.parametrize("batch", [1, 4, 9])
def test_pictures_come_back_as_they_were(tmp_path: Path, batch: int) -> None:
    """However frames are put into batches, a lossless encoder keeps each, with its time."""
    array = noise(9)
    muxer, encoder = ffv1(tmp_path)
    path = write_all(muxer, encoder, (pictures_at(array[i : i + batch], i) for i in range(0, 9, batch)))
    assert np.array_equal(decoded_video(path, "yuv444p", (3, HEIGHT, WIDTH)), array)
    assert [float(frame["pts_time"]) for frame in probed_frames(path)] == pytest.approx(np.arange(9) / 25)


@pytest.mark.parametrize("step", [1, 100, 576, 700, 5000])
def test_samples_come_back_as_they_were(tmp_path: Path, step: int) -> None:
    """Samples are regrouped to what the encoder takes, the last ones too."""
    array = samples(2000)
    muxer, encoder = flac(tmp_path)
    assert encoder.frame_size == 576
    path = write_all(muxer, encoder, (sound_at(array[i : i + step], i) for i in range(0, 2000, step)))
    assert np.array_equal(read_samples(path), array)


def test_an_encoder_of_any_number_of_samples_says_so(tmp_path: Path) -> None:
    """PCM takes what comes."""
    array = samples(1234)
    muxer = spdl.io.Muxer(tmp_path / "out.wav")
    encoder = muxer.add_encode_stream(audio_config())
    assert encoder.frame_size == 0
    assert np.array_equal(
        read_samples(write_all(muxer, encoder, [sound_at(array[:7], 0), sound_at(array[7:], 7)])), array
    )


def test_planar_samples_and_many_channels(tmp_path: Path) -> None:
    """Six planes of floats in AAC: each channel stays in its place."""
    time = np.arange(8000) / 8000
    array = np.stack([np.sin(2 * np.pi * 100 * (i + 1) * time) for i in range(6)]).astype(np.float32) / 2
    array[3] = 0  # low frequencies only pass there
    muxer = spdl.io.Muxer(tmp_path / "out.mp4")
    encoder = muxer.add_encode_stream(
        spdl.io.audio_encode_config(num_channels=6, sample_rate=8000, bit_rate=200_000), encoder="aac"
    )
    frames = spdl.io.create_reference_audio_frame(array, "fltp", 8000, 0)
    raw = run_ffmpeg("-i", write_all(muxer, encoder, [frames]), "-f", "f32le", "-")
    decoded = np.frombuffer(raw, np.float32).reshape(-1, 6)[:8000].T
    peaks = np.abs(np.fft.rfft(decoded[:, 2000:6000])).argmax(axis=1) * 2
    assert [peaks[i] for i in (0, 1, 2, 4, 5)] == [100, 200, 300, 500, 600]


def test_packets_can_be_decoded_and_remuxed_at_once(tmp_path: Path) -> None:
    """They carry the codec."""
    array = noise(3)
    _, encoder = ffv1(tmp_path)
    packets = encoder.encode(pictures_at(array, 0))
    assert packets is not None
    assert packets.codec is not None
    assert (packets.codec.name, packets.codec.width, packets.codec.height) == ("ffv1", WIDTH, HEIGHT)
    assert packets.get_timestamps() == pytest.approx([0, 0.04, 0.08])
    muxer = spdl.io.Muxer(tmp_path / "copy.mkv")
    muxer.add_remux_stream(packets.codec)
    with muxer.open():
        muxer.write(0, packets)
    assert np.array_equal(decoded_video(tmp_path / "copy.mkv", "yuv444p", (3, HEIGHT, WIDTH)), array)
    decoded = spdl.io.decode_packets(packets, filter_desc=None)
    assert np.array_equal(spdl.io.to_numpy(spdl.io.convert_frames(decoded)), array)


@pytest.mark.needs("encoder libx264")
def test_flush_gives_what_is_held_back_once() -> None:
    """A second flush gives nothing, and the encoder takes no more."""
    encoder = spdl.io.Muxer("unused.mp4").add_encode_stream(video_config())
    assert encoder.encode(pictures_at(noise(3), 0)) is None
    packets = encoder.flush()
    assert packets is not None
    assert len(packets) == 3
    assert encoder.flush() is None
    with pytest.raises(spdl.io.EncodeError, match="the encoder was flushed"):
        encoder.encode(pictures_at(noise(1), 3))


def test_an_encoder_without_frames_has_nothing_to_flush(tmp_path: Path) -> None:
    """Neither kind invents packets."""
    assert ffv1(tmp_path)[1].flush() is None
    muxer = spdl.io.Muxer(tmp_path / "out.mp4")
    assert muxer.add_encode_stream(audio_config(sample_fmt="fltp")).flush() is None


@pytest.mark.parametrize(
    ("height", "pix_fmt", "message"),
    [
        (HEIGHT + 2, "yuv444p", "the frames are 50x36 yuv444p, and the encoder was made for 50x34 yuv444p"),
        (HEIGHT, "rgb24", "the frames are 50x34 rgb24, and the encoder was made for 50x34 yuv444p"),
    ],
)
def test_pictures_of_another_kind_are_refused(tmp_path: Path, height: int, pix_fmt: str, message: str) -> None:
    """The error names both, and the encoder goes on with what fits."""
    muxer, encoder = ffv1(tmp_path)
    shape = (1, 3, height, WIDTH) if pix_fmt == "yuv444p" else (1, height, WIDTH, 3)
    with pytest.raises(spdl.io.EncodeError, match=message):
        encoder.encode(spdl.io.create_reference_video_frame(np.zeros(shape, np.uint8), pix_fmt, (25, 1), 0))
    array = noise(1)
    path = write_all(muxer, encoder, [pictures_at(array, 0)])
    assert np.array_equal(decoded_video(path, "yuv444p", (3, HEIGHT, WIDTH)), array)


@pytest.mark.parametrize(
    ("shape", "dtype", "sample_fmt", "rate", "found"),
    [
        ((100, 1), "i2", "s16", 8000, "1 channels of s16 at 8000 Hz"),
        ((100, 2), "i2", "s16", 16000, "2 channels of s16 at 16000 Hz"),
        ((2, 100), "f4", "fltp", 8000, "2 channels of fltp at 8000 Hz"),
    ],
)
def test_samples_of_another_kind_are_refused(
    tmp_path: Path, shape: tuple[int, int], dtype: str, sample_fmt: str, rate: int, found: str
) -> None:
    """The error names both."""
    _, encoder = flac(tmp_path)
    frames = spdl.io.create_reference_audio_frame(np.zeros(shape, dtype), sample_fmt, rate, 0)
    message = f"the frames are {found}, and the encoder was made for 2 channels of s16 at 8000 Hz"
    with pytest.raises(spdl.io.EncodeError, match=message):
        encoder.encode(frames)


def test_frames_of_the_other_medium_are_a_type_error(tmp_path: Path) -> None:
    """And they are not consumed by it."""
    sound, pictures = sound_at(samples(10), 0), pictures_at(noise(1), 0)
    with pytest.raises(TypeError, match="VideoEncoder takes VideoFrames or ImageFrames, got AudioFrames"):
        ffv1(tmp_path)[1].encode(sound)  # type: ignore[arg-type]  # the error is what is tested
    with pytest.raises(TypeError, match="AudioEncoder takes AudioFrames, got VideoFrames"):
        flac(tmp_path)[1].encode(pictures)  # type: ignore[arg-type]  # the error is what is tested
    with pytest.raises(TypeError, match="frames must be"):
        flac(tmp_path)[1].encode(samples(10))  # type: ignore[arg-type]  # the error is what is tested
    assert len(sound) == 10
    assert len(pictures) == 1


def test_encoding_consumes_frames(tmp_path: Path) -> None:
    """A clone can be encoded again."""
    _, encoder = ffv1(tmp_path)
    frames = pictures_at(noise(1), 0)
    copy = frames.clone()
    encoder.encode(frames)
    with pytest.raises(spdl.io.ConsumedError):
        encoder.encode(frames)
    assert ffv1(tmp_path)[1].encode(copy) is not None


def test_time_stamps_are_kept(tmp_path: Path) -> None:
    """Frames of 10 a second in a stream of 50 a second stay where they are in time."""
    muxer, encoder = ffv1(tmp_path, frame_rate=(50, 1))
    path = write_all(muxer, encoder, [pictures_at(noise(2), 3, (10, 1)), pictures_at(noise(1), 7, (10, 1))])
    assert [float(frame["pts_time"]) for frame in probed_frames(path)] == pytest.approx([0.3, 0.4, 0.7])


def test_pictures_that_do_not_come_later_are_refused(tmp_path: Path) -> None:
    """Two frames in one tick of the frame rate, or one before the last."""
    _, encoder = ffv1(tmp_path)
    with pytest.raises(spdl.io.EncodeError, match=r"frame at 0.0[04]0000 s must come after the one at 0.0[04]0000 s"):
        encoder.encode(pictures_at(noise(4), 0, (100, 1)))
    _, encoder = ffv1(tmp_path)
    encoder.encode(pictures_at(noise(1), 5))
    with pytest.raises(spdl.io.EncodeError, match=r"frame at 0.160000 s must come after the one at 0.200000 s"):
        encoder.encode(pictures_at(noise(1), 4))


@pytest.mark.parametrize("pts", [2**63 - 1, -(2**63) + 1, 2**62])
def test_time_stamps_beyond_reason_are_refused(tmp_path: Path, pts: int) -> None:
    """They are an error, and nothing overflows."""
    with pytest.raises(spdl.io.EncodeError, match=f"the time stamp {pts} is out of range"):
        ffv1(tmp_path)[1].encode(pictures_at(noise(1), pts))
    with pytest.raises(spdl.io.EncodeError, match=f"the time stamp {pts} is out of range"):
        flac(tmp_path)[1].encode(sound_at(samples(1), pts))


def test_images_follow_each_other(tmp_path: Path) -> None:
    """Images have no place in time: they get one frame each, in the order in which they come."""
    frames = pictures_at(noise(3), 10)
    muxer, encoder = ffv1(tmp_path)
    path = write_all(muxer, encoder, [frames[2], frames[0], frames[2]])
    decoded = decoded_video(path, "yuv444p", (3, HEIGHT, WIDTH))
    assert np.array_equal(decoded, noise(3)[[2, 0, 2]])
    assert [float(frame["pts_time"]) for frame in probed_frames(path)] == pytest.approx([0, 0.04, 0.08])


def test_a_gap_between_samples_stays_a_gap(tmp_path: Path) -> None:
    """Samples keep their time: after silence up to the end of a packet, the next packet starts where they do."""
    array = samples(1000)
    _, encoder = flac(tmp_path)
    encoded = [encoder.encode(sound_at(array[:700], 0)), encoder.encode(sound_at(array[700:], 8000)), encoder.flush()]
    times = [time for packets in encoded if packets is not None for time in packet_times(packets, tmp_path)]
    assert times == pytest.approx([0, 0.072, 1.0], abs=0.001)


def test_a_small_gap_between_samples_is_silence(tmp_path: Path) -> None:
    """Fewer samples than make a packet are filled in."""
    array = samples(600)
    muxer, encoder = flac(tmp_path)
    path = write_all(muxer, encoder, [sound_at(array[:100], 0), sound_at(array[100:], 150)])
    assert np.array_equal(read_samples(path), np.concatenate([array[:100], np.zeros((50, 2), np.int16), array[100:]]))


def test_samples_that_overlap_are_refused(tmp_path: Path) -> None:
    """The error says from where and until where."""
    _, encoder = flac(tmp_path)
    encoder.encode(sound_at(samples(800), 0))
    with pytest.raises(spdl.io.EncodeError, match=r"samples at 0.050000 s overlap .* last until 0.100000 s"):
        encoder.encode(sound_at(samples(800), 400))


def test_rounded_time_stamps_are_no_gaps(tmp_path: Path) -> None:
    """A container of milliseconds gives 44100 samples a second in packets of 1152: all samples come, and no others."""
    source = clip("s.mka", *tones(44100, 1.0), "-c:a", "flac", "-sample_fmt", "s16", "-frame_size", "1152")
    frames = spdl.io.decode_packets(spdl.io.demux_audio(str(source)), filter_desc=None)
    muxer = spdl.io.Muxer(tmp_path / "out.flac")
    encoder = muxer.add_encode_stream(audio_config(num_channels=1, sample_rate=44100))
    path = write_all(muxer, encoder, [frames])
    assert np.array_equal(read_samples(path, 1), read_samples(source, 1))


def test_a_decoded_clip_is_encoded_again(tmp_path: Path) -> None:
    """Frames of a decoder, with B-frames in the source, go through a lossless encoder unchanged."""
    frames = spdl.io.decode_packets(spdl.io.demux_video(str(h264())), filter_desc=None)
    muxer, encoder = ffv1(tmp_path, height=48, width=64, pix_fmt="yuv420p")
    path = write_all(muxer, encoder, [frames])
    shape = (48 * 64 * 3 // 2,)
    assert np.array_equal(decoded_video(path, "yuv420p", shape), decoded_video(h264(), "yuv420p", shape))
    times = [[float(frame["pts_time"]) for frame in probed_frames(each)] for each in (path, h264())]
    assert times[0] == pytest.approx(times[1], abs=0.001)


@pytest.mark.parametrize(("gop_size", "max_b_frames"), [(4, 0), (6, 2)])
def test_group_of_pictures_is_as_asked(tmp_path: Path, gop_size: int, max_b_frames: int) -> None:
    """Key frames and B-frames come as the config says."""
    muxer = spdl.io.Muxer(tmp_path / "out.avi")
    config = video_config(pix_fmt="yuv420p", gop_size=gop_size, max_b_frames=max_b_frames)
    encoder = muxer.add_encode_stream(config, encoder="mpeg4", encoder_config={"sc_threshold": "1000000000"})
    array = np.zeros((12, HEIGHT, WIDTH), np.uint8)
    path = write_all(muxer, encoder, [to_yuv420p(spdl.io.create_reference_video_frame(array, "gray", (25, 1), 0))])
    types = "".join(frame["pict_type"] for frame in probed_frames(path))
    assert max(map(len, types.split("I"))) == gop_size - 1
    assert max(map(len, types.replace("I", "P").split("P"))) == max_b_frames


def to_yuv420p(frames: spdl.io.VideoFrames) -> spdl.io.VideoFrames:
    """The same pictures in another format, by a filter."""
    graph = spdl.io.FilterGraph(
        f"buffer=video_size={frames.width}x{frames.height}:pix_fmt={frames.pix_fmt}:time_base=1/25,"
        "format=yuv420p,buffersink"
    )
    graph.add_frames(frames)
    graph.flush()
    converted = graph.get_frames()
    assert isinstance(converted, spdl.io.VideoFrames)
    return converted


@pytest.mark.parametrize(
    ("large", "small"), [({"qscale": 2}, {"qscale": 31}), ({"bit_rate": 2_000_000}, {"bit_rate": 20_000})]
)
def test_rate_and_quality_change_the_size(tmp_path: Path, large: dict[str, int], small: dict[str, int]) -> None:
    """More bits or a lower scale make a larger stream."""
    sizes = []
    for options in (large, small):
        muxer = spdl.io.Muxer(tmp_path / "out.avi")
        encoder = muxer.add_encode_stream(video_config(pix_fmt="yuv420p", **options), encoder="mpeg4")
        sizes.append(write_all(muxer, encoder, [to_yuv420p(pictures_at(noise(25), 0))]).stat().st_size)
    assert sizes[0] > 2 * sizes[1]


@pytest.mark.needs("encoder libx264")
def test_colour_properties_are_told(tmp_path: Path) -> None:
    """ffprobe reads them back."""
    muxer = spdl.io.Muxer(tmp_path / "out.mp4")
    config = video_config(colorspace="bt709", color_primaries="bt709", color_trc="iec61966-2-1")
    frame = probed_frames(write_all(muxer, muxer.add_encode_stream(config), [pictures_at(noise(1), 0)]))[0]
    assert (frame["color_space"], frame["color_primaries"], frame["color_transfer"]) == (
        "bt709",
        "bt709",
        "iec61966-2-1",
    )


@pytest.mark.needs("encoder libx264")
def test_options_reach_the_encoder(tmp_path: Path) -> None:
    """A lossless setting of x264, and threads."""
    array = noise(3)
    muxer = spdl.io.Muxer(tmp_path / "out.mp4")
    encoder = muxer.add_encode_stream(
        video_config(), encoder="libx264", encoder_config={"qp": "0", "preset": "ultrafast", "threads": "2"}
    )
    path = write_all(muxer, encoder, [pictures_at(array, 0)])
    assert np.array_equal(decoded_video(path, "yuv444p", (3, HEIGHT, WIDTH)), array)


def test_minus_one_leaves_the_choice_to_the_encoder() -> None:
    """In the config it is None; other values stay."""
    config = spdl.io.video_encode_config(height=1, width=2, bit_rate=7, qscale=0)
    assert (config.bit_rate, config.qscale, config.gop_size) == (7, 0, None)
    assert config == spdl.io.VideoEncodeConfig(height=1, width=2, bit_rate=7, qscale=0)
    assert spdl.io.audio_encode_config(num_channels=1, sample_rate=2).bit_rate is None
    with pytest.raises(AttributeError):
        config.height = 3  # type: ignore[misc]  # the error is what is tested


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 0}, "height must be >= 1, got 0"),
        ({"width": -1}, "width must be >= 1, got -1"),
        ({"width": 2**31}, "width must be <= 2147483647, got 2147483648"),
        ({"bit_rate": -2}, "bit_rate must be >= 0, got -2"),
        ({"max_b_frames": -3}, "max_b_frames must be >= 0, got -3"),
        ({"frame_rate": (0, 1)}, r"frame_rate must be two positive numbers .*got \(0, 1\)"),
        ({"frame_rate": (25, -1)}, "frame_rate must be two positive numbers"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    """The message names the argument and what was given."""
    with pytest.raises(ValueError, match=message):
        video_config(**options)


def test_an_encoder_serves_one_thread_at_a_time(tmp_path: Path) -> None:
    """Whoever comes at the wrong moment gets an error; what was accepted is encoded, and nothing else."""
    muxer, encoder = ffv1(tmp_path)
    image = pictures_at(noise(1), 0)[0]
    start = threading.Barrier(4)
    encoded: list[spdl.io.VideoPackets] = []
    refused: list[str] = []

    def encode() -> None:
        clones = [image.clone() for _ in range(25)]
        start.wait()
        for frames in clones:
            try:
                packets = encoder.encode(frames)
            except spdl.io.MediaError as exc:
                refused.append(str(exc))
            else:
                assert packets is not None
                encoded.append(packets)

    threads = [threading.Thread(target=encode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(encoded) + len(refused) == 100
    assert all("another thread is using the same object" in message for message in refused)
    times = sorted(time for packets in encoded for time in packets.get_timestamps())
    assert times == pytest.approx(np.arange(len(encoded)) / 25)
    muxer.close()
