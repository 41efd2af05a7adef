"""Arguments that are plain values, in every function: NumPy's scalars are accepted, and errors name the argument."""

import io
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import draw

Call = Callable[[Any], object]


def saved(name: str) -> bytes:
    stream = io.BytesIO()
    draw(16, 12).save(stream, name)
    return stream.getvalue()


def sound() -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(bytes(32000))
    return stream.getvalue()


def npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, a=np.zeros(3))
    return stream.getvalue()


PNG, JPEG, WAV = saved("PNG"), saved("JPEG"), sound()
TRANSFORM = spdl.io.ImageTransform(8)
FRAMES = np.zeros((1, 4, 4, 3), np.uint8)
SAMPLES = np.zeros((4, 1), np.int16)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    source = "testsrc2=size=32x32:rate=5:duration=2"
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "mpeg4", str(path)]
    subprocess.run(command, check=True)
    return str(path)


def batch(**options: Any) -> object:
    return spdl.io.load_image_batch([PNG], **{"width": 8, "height": 8} | options)


def transformed(**options: Any) -> object:
    return spdl.io.load_image_batch([PNG], transform=TRANSFORM, **options)


def sounds(**options: Any) -> object:
    given: dict[str, Any] = {"num_samples": 100, "sample_rate": 8000, "start": 0.0}
    return spdl.io.load_audio_batch([WAV], **given | options)


def clips(path: str, **options: Any) -> object:
    given: dict[str, Any] = {"num_frames": 2, "start": 0.0, "size": 8}
    return spdl.io.load_video_clips([path], **given | options)


def applied(flip: Any) -> object:
    whole = (0, 0, 12, 16)
    return spdl.io.AppliedTransform((12, 16), whole, (12, 16), whole, (0, 0), flip, False, (12, 16))


def bools(clip: str) -> dict[str, Call]:
    return {
        "orient of load_image, PNG": lambda value: spdl.io.load_image(PNG, orient=value),
        "orient of load_image, JPEG": lambda value: spdl.io.load_image(JPEG, orient=value),
        "orient of load_image, filtered": lambda value: spdl.io.load_image(JPEG, orient=value, filter_desc=None),
        "orient of load_image_batch": lambda value: batch(orient=value),
        "orient of load_image_batch, filtered": lambda value: batch(orient=value, pix_fmt="rgba"),
        "strict of load_image_batch": lambda value: batch(strict=value),
        "strict of load_image_batch, filtered": lambda value: batch(strict=value, pix_fmt="rgba"),
        "strict of load_image_batch, transformed": lambda value: transformed(strict=value),
        "orient of ImageTransform": lambda value: spdl.io.ImageTransform(8, orient=value),
        "exact of ImageTransform": lambda value: spdl.io.ImageTransform(8, exact=value),
        "flip of AppliedTransform": applied,
        "orient of load_video": lambda value: spdl.io.load_video(clip, orient=value),
        "strict of load_video_clips": lambda value: clips(clip, strict=value),
        "strict of load_audio_batch": lambda value: sounds(strict=value),
        "tolerate_errors of demux_config": lambda value: spdl.io.demux_config(tolerate_errors=value),
        "tolerate_errors of decode_config": lambda value: spdl.io.decode_config(tolerate_errors=value),
        "copy of load_npy": lambda value: spdl.io.load_npy(npy(), copy=value),
    }


def integers(clip: str) -> dict[str, Call]:
    def packets() -> Any:
        return spdl.io.demux_video(clip)

    return {
        "max_pixels of load_image": lambda value: spdl.io.load_image(PNG, max_pixels=value),
        "width of load_image_batch": lambda value: batch(width=value),
        "num_threads of load_image_batch": lambda value: batch(num_threads=value),
        "num_threads of load_image_batch, transformed": lambda value: transformed(num_threads=value),
        "top of Crop": lambda value: spdl.io.Crop(value, 0, 4, 4),
        "length of ShorterSide": spdl.io.ShorterSide,
        "size of ImageTransform": spdl.io.ImageTransform,
        "buffer_size of demux_config": lambda value: spdl.io.demux_config(buffer_size=value),
        "num_frames of decode_packets": lambda value: spdl.io.decode_packets(packets(), num_frames=value),
        "indices of sample_decode_video": lambda value: spdl.io.sample_decode_video(packets(), indices=[value]),
        "num_channels of load_audio": lambda value: spdl.io.load_audio(WAV, num_channels=value),
        "num_samples of load_audio": lambda value: spdl.io.load_audio(WAV, num_samples=value),
        "num_samples of load_audio_batch": lambda value: sounds(num_samples=value),
        "num_threads of load_audio_batch": lambda value: sounds(num_threads=value),
        "num_frames of load_video_clips": lambda value: clips(clip, num_frames=value),
        "stride of load_video_clips": lambda value: clips(clip, stride=value),
        "size of load_video_clips": lambda value: clips(clip, size=value),
        "max_uncompressed_bytes of load_npz": lambda value: spdl.io.load_npz(npz(), max_uncompressed_bytes=value),
        "size of cpu_storage": lambda value: spdl.io.cpu_storage(value, pin_memory=False),
        "num_frames of get_video_filter_desc": lambda value: spdl.io.get_video_filter_desc(num_frames=value),
        "scale_width of get_video_filter_desc": lambda value: spdl.io.get_video_filter_desc(scale_width=value),
        "crop_height of get_video_filter_desc": lambda value: spdl.io.get_video_filter_desc(crop_height=value),
        "num_frames of get_audio_filter_desc": lambda value: spdl.io.get_audio_filter_desc(num_frames=value),
        "sample_rate of get_audio_filter_desc": lambda value: spdl.io.get_audio_filter_desc(sample_rate=value),
        "num_channels of get_audio_filter_desc": lambda value: spdl.io.get_audio_filter_desc(num_channels=value),
        "height of video_encode_config": lambda value: spdl.io.video_encode_config(height=value, width=16),
        "gop_size of video_encode_config": lambda value: spdl.io.video_encode_config(
            height=16, width=16, gop_size=value
        ),
        "num_channels of audio_encode_config": lambda value: spdl.io.audio_encode_config(
            num_channels=value, sample_rate=8000
        ),
        "compression_level of image_to_bytes": lambda value: spdl.io.image_to_bytes(
            FRAMES[0], "png", compression_level=value
        ),
        "pts of create_reference_video_frame": lambda value: spdl.io.create_reference_video_frame(
            FRAMES, "rgb24", (5, 1), value
        ),
        "sample_rate of create_reference_audio_frame": lambda value: spdl.io.create_reference_audio_frame(
            SAMPLES, "s16", value, 0
        ),
        "num_packets of streaming_demux": lambda value: next(
            iter(spdl.io.Demuxer(clip).streaming_demux(0, num_packets=value))
        ),
        "device_index of cuda_config": lambda value: spdl.io.cuda_config(device_index=value),
    }


def numbers(clip: str) -> dict[str, Call]:
    return {
        "flip of ImageTransform": lambda value: spdl.io.ImageTransform(8, flip=value),
        "timeout of demux_config": lambda value: spdl.io.demux_config(timeout=value),
        "time_offset_seconds of load_wav": lambda value: spdl.io.load_wav(WAV, time_offset_seconds=value),
        "duration_seconds of load_wav": lambda value: spdl.io.load_wav(WAV, duration_seconds=value),
        "start of load_audio_batch": lambda value: sounds(start=value),
        "start of load_video_clips": lambda value: clips(clip, start=value),
        "timestamp of load_video": lambda value: spdl.io.load_video(clip, (value, 2)),
        "timestamp of load_audio": lambda value: spdl.io.load_audio(WAV, (value, 2)),
        "times of sample_decode_video": lambda value: spdl.io.sample_decode_video(
            spdl.io.demux_video(clip), times=[value]
        ),
    }


def check(call: Call, what: str, good: list[Any], bad: list[Any]) -> None:
    """Good values work; bad ones are refused by name, and not in the words of a binding."""
    argument = what.split(" of ")[0]
    for value in good:
        try:
            call(value)
        except spdl.io.ImageTooLargeError:  # the value arrived
            assert argument == "max_pixels"
        except IndexError:
            assert argument == "indices"
    for value in bad:
        with pytest.raises(TypeError, match=argument) as caught:
            call(value)
        assert "incompatible" not in str(caught.value), what
        assert repr(value) in str(caught.value), what


@pytest.mark.parametrize("what", bools(""))
def test_bools(what: str, clip: str) -> None:
    """NumPy's are accepted; numbers, text and None are not."""
    check(bools(clip)[what], what, [True, False, np.True_, np.False_], [1, 0, "yes", None, np.int64(1)])


@pytest.mark.parametrize("what", integers(""))
def test_integers(what: str, clip: str) -> None:
    """NumPy's are accepted; bools, floats and text are not."""
    bad = [8.0, "8", True, np.float32(8), np.True_]
    check(integers(clip)[what], what, [8, np.int64(8), np.uint8(8), np.int32(8)], bad)


@pytest.mark.parametrize("what", numbers(""))
def test_numbers(what: str, clip: str) -> None:
    """NumPy's are accepted; bools are not."""
    check(numbers(clip)[what], what, [0.5, np.float32(0.5), np.float64(0.5)], [True, np.True_])


def test_a_picture_turns_for_numpys_true() -> None:
    """The value counts, too."""
    exif = Image.Exif()
    exif[274] = 6
    stream = io.BytesIO()
    draw(16, 12).save(stream, "PNG", exif=exif)
    assert spdl.io.load_image(stream.getvalue(), orient=np.True_).shape == (16, 12, 3)  # type: ignore[call-overload]
    assert spdl.io.load_image(stream.getvalue(), orient=np.False_).shape == (12, 16, 3)  # type: ignore[call-overload]
