"""One-step loading: the same as the steps one by one, judged by Pillow and the ffmpeg tool."""

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels, difference, draw, make_jpeg, psnr
from tests.support.media import clip, decoded_audio, decoded_video, h264, run_ffmpeg, tones


def image(source: Any, **options: Any) -> Pixels:
    pixels: Pixels = spdl.io.to_numpy(spdl.io.load_image(source, **options))
    return pixels


def save(picture: Image.Image, name: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, name, **options)
    return stream.getvalue()


def of_pillow(data: bytes) -> Pixels:
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"))


@pytest.mark.parametrize("name", ["PNG", "BMP", "GIF", "TIFF", "PPM", "JPEG2000"])
def test_lossless_image_is_exact(name: str) -> None:
    """``(height, width, 3)``, pixel for pixel."""
    data = save(draw(61, 43), name)
    assert (image(data) == of_pillow(data)).all()


@pytest.mark.parametrize(
    ("name", "options", "least"),
    [
        ("JPEG", {"subsampling": "4:4:4"}, 60),
        ("JPEG", {"subsampling": "4:2:0"}, 60),
        ("WEBP", {"lossless": True}, 99),
        ("WEBP", {"quality": 90}, 36),
        ("AVIF", {"quality": 90}, 36),
    ],
    ids=str,
)
def test_lossy_image_is_like_pillow(name: str, options: dict[str, Any], least: float) -> None:
    """FFmpeg's way to enlarge chroma is not Pillow's; see the reference documentation."""
    data = save(draw(60, 44), name, **options)
    assert psnr(image(data), of_pillow(data)) >= least


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP"])
def test_image_is_what_the_ffmpeg_tool_gives(name: str, tmp_path: Path) -> None:
    """Bit for bit, with a filter; without one, JPEG is what libjpeg-turbo gives."""
    path = tmp_path / f"picture.{name.lower()}"
    path.write_bytes(save(draw(60, 44), name))
    raw = run_ffmpeg("-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    assert image(path, filter_desc=spdl.io.get_video_filter_desc()).tobytes() == raw
    if name != "JPEG":
        assert image(path).tobytes() == raw


def test_every_kind_of_source_gives_the_same_pixels(tmp_path: Path) -> None:
    """Paths as text and objects, URLs, and all buffers."""
    path = tmp_path / "picture.png"
    path.write_bytes(data := save(draw(40, 30), "PNG"))
    sources = [str(path), path, f"file:{path}", data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)]
    first, *others = [image(source) for source in sources]
    assert first.shape == (30, 40, 3)
    assert all((first == other).all() for other in others)


def test_image_through_a_filter() -> None:
    """A chain of the user's own."""
    pixels = image(make_jpeg(64, 48), filter_desc="scale=w=20:h=10,format=pix_fmts=gray")
    assert pixels.shape == (10, 20, 1)


def test_image_without_a_filter_keeps_its_format() -> None:
    """16 bits stay 16 bits."""
    deep = np.linspace(0, 65535, 30 * 20).astype(np.uint16).reshape(20, 30)
    pixels = image(save(Image.fromarray(deep), "PNG"), filter_desc=None)
    assert pixels.shape == (1, 20, 30)
    assert pixels.dtype == np.uint16
    assert (pixels[0] == deep).all()


@pytest.mark.parametrize(
    "config", [{"demux_config": spdl.io.demux_config()}, {"decode_config": spdl.io.decode_config()}]
)
def test_image_with_a_configuration_is_the_same(config: dict[str, Any]) -> None:
    """With a demuxer as without; for JPEG, as with a filter."""
    data = save(draw(64, 48), "PNG")
    assert (image(data, **config) == image(data)).all()
    data = make_jpeg(64, 48)
    filtered = image(data, filter_desc=spdl.io.get_video_filter_desc())
    assert (image(data, **config) == filtered).all()
    assert psnr(image(data), filtered) > 45


def test_image_of_a_video_is_its_first_picture() -> None:
    """And a cover is that of a song."""
    path = h264()
    assert (image(path) == decoded_video(path, "rgb24", (48, 64, 3))[0]).all()
    assert (image(path.read_bytes()) == image(path)).all()


def test_image_of_sound_is_not_found() -> None:
    """The kind of stream that is missing is in the message."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(800))
    with pytest.raises(spdl.io.StreamNotFoundError, match="No image stream was found in"):
        image(stream.getvalue())
    with pytest.raises(spdl.io.StreamNotFoundError, match="No video stream was found in"):
        spdl.io.load_video(stream.getvalue())


def test_errors_name_the_source(tmp_path: Path) -> None:
    """Its path, its address, or the name that it is given."""
    with pytest.raises(spdl.io.SourceNotFoundError, match=r"Failed to open the input: .*none\.png"):
        image(tmp_path / "none.png")
    with pytest.raises(spdl.io.OpenError, match="Failed to open the input: Bytes: 0x"):
        image(b"junk" * 100)
    with pytest.raises(spdl.io.OpenError, match="Failed to open the input: my picture"):
        image(b"junk" * 100, name="my picture")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "AVIF"])
def test_truncated_image_is_an_error(name: str, part: float) -> None:
    """A picture with a part missing is not a picture."""
    data = save(draw(60, 44), name)
    with pytest.raises(spdl.io.MediaError):
        image(data[: int(len(data) * part)])


@pytest.mark.parametrize("load", [spdl.io.load_image, spdl.io.load_video, spdl.io.load_audio])
def test_unknown_keywords_are_type_errors(load: Any) -> None:
    """As for any function."""
    with pytest.raises(TypeError, match="nonsense"):
        load(b"", nonsense=1)


@pytest.mark.parametrize("load", [spdl.io.load_image, spdl.io.load_video, spdl.io.load_audio])
@pytest.mark.parametrize(
    "options",
    [{"src": 5}, {"filter_desc": 5}, {"demux_config": 5}, {"decode_config": {}}],
    ids=lambda value: next(iter(value)),
)
def test_argument_errors_come_before_the_device(load: Any, options: dict[str, Any]) -> None:
    """What is wrong with the call is told first."""
    with pytest.raises(TypeError):
        load(**{"src": b"", "device_config": spdl.io.cuda_config(0), **options})


@pytest.mark.parametrize("load", [spdl.io.load_image, spdl.io.load_video, spdl.io.load_audio])
def test_device_config_needs_cuda(load: Any) -> None:
    """A device that is not there is a ``DeviceError``, which is a ``RuntimeError``; what is none, a ``TypeError``."""
    with pytest.raises(spdl.io.DeviceError, match="cuda:99, as device_config says") as caught:
        load(b"", device_config=spdl.io.cuda_config(99))
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(TypeError, match="device_config must be made by cuda_config"):
        load(b"", device_config=object())


def test_video_is_all_its_pictures() -> None:
    """``(pictures, height, width, 3)``."""
    path = h264()
    expected = decoded_video(path, "rgb24", (48, 64, 3))
    assert (spdl.io.to_numpy(spdl.io.load_video(path)) == expected).all()


def test_video_of_a_window() -> None:
    """Half open, exact to the picture."""
    path = h264()
    expected = decoded_video(path, "rgb24", (48, 64, 3))
    assert (spdl.io.to_numpy(spdl.io.load_video(path, (0.4, 1.2))) == expected[10:30]).all()
    assert (spdl.io.to_numpy(spdl.io.load_video(path, timestamp=("2/5", 1.2))) == expected[10:30]).all()


def test_video_through_a_filter() -> None:
    """Scaled, in another format."""
    description = spdl.io.get_video_filter_desc(scale_width=32, scale_height=32, pix_fmt="yuv420p")
    assert spdl.io.to_numpy(spdl.io.load_video(h264(), filter_desc=description)).shape == (50, 1, 48, 32)


def test_image_as_video_is_one_picture() -> None:
    """With the axis of a video."""
    data = save(draw(40, 30), "PNG")
    assert (spdl.io.to_numpy(spdl.io.load_video(data)) == of_pillow(data)).all()


def test_window_without_pictures_is_an_error() -> None:
    """There is no array of nothing; the message has the window, and how long the stream is."""
    with pytest.raises(spdl.io.ConvertError, match=r"no pictures in \[100, 101\) seconds; .* from 0 to 2$"):
        spdl.io.load_video(h264(), (100, 101))
    path = clip("second.wav", *tones(duration=1))
    with pytest.raises(spdl.io.ConvertError, match=r"no samples in \[5, 6\) seconds; .* from 0 to 1$"):
        spdl.io.load_audio(path, (5, 6))
    with pytest.raises(spdl.io.ConvertError, match=r"no samples in \[0\.50001, 0\.50002\) seconds"):
        spdl.io.load_audio(path, (0.50001, 0.50002))


def test_audio_is_all_its_samples() -> None:
    """``(channels, samples)`` of ``float32``."""
    path = clip("tones.flac", *tones(expression="sin(440*2*PI*t)|cos(300*2*PI*t)"), "-c:a", "flac")
    samples = spdl.io.to_numpy(spdl.io.load_audio(path))
    assert samples.dtype == np.float32
    assert (samples == decoded_audio(path, 2).T).all()


def test_audio_of_a_window() -> None:
    """Exact to the sample."""
    path = clip("tones.flac", *tones(expression="sin(440*2*PI*t)|cos(300*2*PI*t)"), "-c:a", "flac")
    samples = spdl.io.to_numpy(spdl.io.load_audio(path, timestamp=(0.5, 1)))
    assert (samples == decoded_audio(path, 2).T[:, 4000:8000]).all()


def test_audio_through_a_filter() -> None:
    """Resampled, mixed, packed."""
    path = clip("tones.flac", *tones(expression="sin(440*2*PI*t)|cos(300*2*PI*t)"), "-c:a", "flac")
    description = spdl.io.get_audio_filter_desc(sample_rate=4000, num_channels=1, sample_fmt="s16")
    samples = spdl.io.to_numpy(spdl.io.load_audio(path, filter_desc=description))
    assert samples.dtype == np.int16
    assert samples.shape == (8000, 1)


def test_audio_without_a_filter_keeps_its_format() -> None:
    """As the decoder gives it."""
    path = clip("tones.flac", *tones(), "-c:a", "flac")
    assert spdl.io.to_numpy(spdl.io.load_audio(path, filter_desc=None)).dtype in (np.int16, np.int32)


def test_difference_of_the_two_ways_to_an_image_is_small() -> None:
    """A JPEG by FFmpeg and the same by the short way of batches, at its own size."""
    data = make_jpeg(64, 48)
    batch = spdl.io.to_numpy(spdl.io.load_image_batch([data], width=64, height=48))
    assert difference(image(data), batch[0]).mean() < 2.5
