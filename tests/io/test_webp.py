"""WebP through libwebp: the samples that the ffmpeg tool decodes, and the errors of FFmpeg for what is damaged."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels, draw
from tests.support.media import run_ffmpeg

SIZES = [(1, 1), (2, 3), (7, 5), (33, 1), (61, 43), (64, 48)]


def make(width: int, height: int, *, alpha: bool = False, **options: Any) -> bytes:
    """A WebP of a picture like a photograph."""
    picture = draw(width, height)
    if alpha:
        picture.putalpha(draw(width, height, seed=3, mode="L"))
    stream = io.BytesIO()
    picture.save(stream, "WEBP", **options)
    return stream.getvalue()


def of_ffmpeg(data: bytes, pix_fmt: str, path: Path) -> Pixels:
    """All samples of the picture, plane by plane, as the tool writes them."""
    path.write_bytes(data)
    raw = run_ffmpeg("-i", path, "-f", "rawvideo", "-pix_fmt", pix_fmt, "-")
    return np.frombuffer(raw, np.uint8)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_lossless_has_the_samples_of_ffmpeg(size: tuple[int, int], tmp_path: Path) -> None:
    """With alpha and without, at every size."""
    for options in ({}, {"alpha": True, "exact": True}):
        data = make(*size, lossless=True, **options)
        expected = of_ffmpeg(data, "argb", tmp_path / "in.webp")
        assert (spdl.io.to_numpy(spdl.io.load_image(data, filter_desc=None)).ravel() == expected).all()


@pytest.mark.parametrize("size", [(2, 3), (16, 16), (62, 43), (64, 48)], ids=str)
@pytest.mark.parametrize("quality", [5, 80, 100])
def test_lossy_has_the_samples_of_ffmpeg(size: tuple[int, int], quality: int, tmp_path: Path) -> None:
    """The planes, not only what is made of them."""
    data = make(*size, quality=quality)
    expected = of_ffmpeg(data, "yuv420p", tmp_path / "in.webp")
    width, height = size
    planes = spdl.io.to_numpy(spdl.io.load_image(data, filter_desc=None)).ravel()
    luma, chroma = width * height, width // 2 * ((height + 1) // 2)
    assert (planes[: luma + 2 * chroma] == expected[: luma + 2 * chroma]).all()


def test_lossy_colours_and_alpha_are_those_of_ffmpeg(tmp_path: Path) -> None:
    """Luma and alpha are the decoder's own; colours come out of the same conversion."""
    data = make(62, 44, alpha=True, quality=70)
    expected = of_ffmpeg(data, "yuva420p", tmp_path / "in.webp").reshape(-1, 62)
    planes = spdl.io.to_numpy(spdl.io.load_image(data, filter_desc=None))
    assert (planes.reshape(expected.shape) == expected).all()


def test_frame_of_an_animation_is_the_one_that_a_still_would_be() -> None:
    """Its first frame is decoded as if it were a file of its own."""
    frames = [draw(64, 48, seed=1), draw(64, 48, seed=2)]
    stream = io.BytesIO()
    frames[0].save(stream, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    assert (spdl.io.to_numpy(spdl.io.load_image(stream.getvalue())) == np.asarray(frames[0])).all()


def test_profile_and_orientation_do_not_matter_to_pixels() -> None:
    """An ICC profile and EXIF are kept out of the way; the orientation is applied when asked for."""
    exif = Image.Exif()
    exif[0x0112] = 6
    plain = spdl.io.to_numpy(spdl.io.load_image(make(40, 30, lossless=True)))
    data = make(40, 30, lossless=True, icc_profile=b"profile" * 20, exif=exif)
    assert (spdl.io.to_numpy(spdl.io.load_image(data)) == plain).all()
    assert (spdl.io.to_numpy(spdl.io.load_image(data, orient=True)) == np.rot90(plain, -1)).all()


def test_padding_of_odd_rows_is_not_seen() -> None:
    """libswscale reads past the end of rows of odd width: what is there must always be the same."""
    data, other = make(61, 43, lossless=True), make(61, 43, lossless=True, alpha=True)
    filter_desc = "scale=w=30:h=20,format=pix_fmts=rgba"
    first = spdl.io.to_numpy(spdl.io.load_image(data, filter_desc=filter_desc)).copy()
    for _ in range(5):
        spdl.io.load_image(other, filter_desc=filter_desc)
        assert (spdl.io.to_numpy(spdl.io.load_image(data, filter_desc=filter_desc)) == first).all()


def test_conversion_at_odd_heights_has_the_bits_of_the_filter() -> None:
    """Planes of an odd height take a short way to RGB, once it was seen to give the same; a filter graph does not."""
    by_graph = "null,format=pix_fmts=rgb24"
    for size in ((160, 121), (160, 121), (16, 17), (18, 33), (62, 43), (130, 19), (61, 43), (14, 15)):
        for seed, options in enumerate(({"quality": 100}, {"quality": 20})):
            noise = np.random.default_rng(seed).integers(0, 2, (size[1], size[0], 3), np.uint8) * 255
            stream = io.BytesIO()
            Image.fromarray(noise).save(stream, "WEBP", **options)
            short = spdl.io.to_numpy(spdl.io.load_image(stream.getvalue()))
            assert (short == spdl.io.to_numpy(spdl.io.load_image(stream.getvalue(), filter_desc=by_graph))).all()


@pytest.mark.parametrize("lossless", [False, True])
def test_every_truncation_is_a_typed_error(lossless: bool) -> None:
    """Wherever the file ends."""
    data = make(31, 22, lossless=lossless, quality=30)
    for end in range(12, len(data) - 1, 7):
        with pytest.raises(spdl.io.MediaError):
            spdl.io.load_image(data[:end])


def test_size_is_checked_before_memory_is_taken() -> None:
    """A canvas and a frame that claim too much are refused."""
    for options in ({"lossless": True}, {"quality": 80}):
        with pytest.raises(spdl.io.ImageTooLargeError):
            spdl.io.load_image(make(61, 43, **options), max_pixels=61 * 43 - 1)
