"""Batches of images that are not JPEG: every format, against Pillow.

Formats that keep every pixel come out exactly; for lossy ones the tolerances say how far decoders may be apart that
enlarge chroma in their own ways, here at its own resolution together with the picture, in Pillow before it.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels, difference, draw, encode, make_jpeg, psnr
from tests.support.media import run_ffmpeg


def save(picture: Image.Image, name: str, **options: Any) -> bytes:
    """The picture in that format of Pillow's."""
    stream = io.BytesIO()
    picture.save(stream, name, **options)
    return stream.getvalue()


def of_pillow(data: bytes) -> Pixels:
    """What Pillow makes of it, without alpha."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"))


def load_one(source: Any, width: int, height: int, **options: Any) -> Pixels:
    pixels: Pixels = spdl.io.to_numpy(spdl.io.load_image_batch([source], width=width, height=height, **options))[0]
    return pixels


def load_whole(source: Any, shape: tuple[int, ...]) -> Pixels:
    """The picture at its own size, where nothing is resampled."""
    return load_one(source, shape[1], shape[0])


def in_mode(mode: str, width: int = 61, height: int = 43) -> Image.Image:
    """A picture in any mode of Pillow's."""
    if mode == "P":
        return draw(width, height).quantize(64)
    if mode in ("RGBA", "LA"):
        picture = draw(width, height).convert(mode[:-1])
        picture.putalpha(draw(width, height, seed=3, mode="L"))
        return picture
    return draw(width, height).convert(mode)


ALPHA = ("RGBA", "LA")
EXACT = [
    *[("PNG", mode, {}) for mode in ("RGB", "L", "1", "P", *ALPHA)],
    *[("BMP", mode, {}) for mode in ("RGB", "L", "1", "P", "RGBA")],
    *[("GIF", mode, {}) for mode in ("RGB", "L", "1", "P", *ALPHA)],
    *[("WEBP", mode, {"lossless": True}) for mode in ("RGB", "RGBA")],
    *[("TIFF", mode, {}) for mode in ("RGB", "L", "1", "P", *ALPHA)],
    *[("TIFF", "RGB", {"compression": name}) for name in ("tiff_lzw", "tiff_deflate", "packbits")],
    *[("PPM", mode, {}) for mode in ("RGB", "L", "1")],
    *[("JPEG2000", mode, {}) for mode in ("RGB", "L", "RGBA")],
    *[("ICO", mode, {"sizes": [(61, 43), (16, 16)]}) for mode in ("RGB", "RGBA")],
    *[("PCX", mode, {}) for mode in ("RGB", "L", "P")],
    *[("SGI", mode, {}) for mode in ("RGB", "L")],
    ("DDS", "RGB", {}),
]


@pytest.mark.parametrize(("name", "mode", "options"), EXACT, ids=str)
def test_lossless_formats_are_exact(name: str, mode: str, options: dict[str, Any]) -> None:
    """Pixel for pixel what Pillow gives, alpha left out."""
    expected = of_pillow(data := save(in_mode(mode), name, **options))
    assert (load_whole(data, expected.shape) == expected).all()


LOSSY = [
    ("WEBP", "RGB", {"quality": 90}, 0.4),
    ("WEBP", "RGB", {"quality": 20}, 0.4),
    ("WEBP", "RGBA", {"quality": 90}, 0.5),
    ("AVIF", "RGB", {"quality": 90}, 0.3),
    ("AVIF", "RGB", {"quality": 90, "subsampling": "4:4:4"}, 0.05),
    ("AVIF", "RGB", {"quality": 90, "subsampling": "4:2:2"}, 0.3),
    ("AVIF", "RGB", {"quality": 90, "range": "limited"}, 0.4),
    ("AVIF", "L", {"quality": 90}, 0.05),
    ("AVIF", "RGBA", {"quality": 90}, 0.3),
    ("TIFF", "CMYK", {}, 0.8),
]


@pytest.mark.parametrize(("name", "mode", "options", "mean"), LOSSY, ids=str)
def test_lossy_formats_are_like_pillow(name: str, mode: str, options: dict[str, Any], mean: float) -> None:
    """Range and matrix are understood; what is left is how chroma is enlarged."""
    expected = of_pillow(data := save(in_mode(mode), name, **options))
    distance = difference(load_whole(data, expected.shape), expected)
    assert distance.mean() <= mean
    assert distance.max() <= 5


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (2, 3), (3, 2), (7, 5), (16, 16), (33, 1)], ids=str)
@pytest.mark.parametrize("name", ["PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM"])
def test_no_size_is_a_special_case(name: str, size: tuple[int, int]) -> None:
    """Down to one pixel, odd sides, and a row or column alone."""
    expected = of_pillow(data := save(draw(*size), name))
    assert difference(load_whole(data, expected.shape), expected).mean() <= 1.5


@pytest.mark.parametrize("size", [(30, 22), (120, 86), (50, 50)], ids=str)
def test_placement_and_filter_are_those_of_jpeg(size: tuple[int, int]) -> None:
    """The same picture as a JPEG of the best quality and as a PNG of it: the same place, and nearly the same pixels."""
    bright = draw(61, 43).point(lambda level: 40 + level * 4 // 5)
    jpeg = encode(bright, quality=100, subsampling="4:4:4")
    png = save(Image.fromarray(of_pillow(jpeg)), "PNG")
    one, other = load_one(jpeg, *size), load_one(png, *size)
    assert (one.any(axis=-1) == other.any(axis=-1)).all()
    assert difference(one, other).mean() <= 0.7


@pytest.mark.parametrize("size", [(30, 21), (122, 86)], ids=str)
@pytest.mark.parametrize(("name", "least"), [("PNG", 53), ("WEBP", 46), ("AVIF", 46), ("GIF", 53)])
def test_resized_pictures_are_like_pillow(name: str, least: float, size: tuple[int, int]) -> None:
    """Smaller and larger, with Pillow's filter of the same kind."""
    data = save(draw(61, 43), name)
    expected = np.asarray(Image.fromarray(of_pillow(data)).resize(size, Image.Resampling.BICUBIC))
    canvas = load_one(data, *size)
    fitted = canvas[np.ix_(canvas.any(axis=(1, 2)), canvas.any(axis=(0, 2)))]
    assert psnr(fitted, expected) >= least


@pytest.mark.parametrize("name", ["PNG", "WEBP", "AVIF", "TIFF"])
def test_gray_and_bgr_follow_from_rgb(name: str) -> None:
    """``bgr24`` is ``rgb24`` reversed, ``gray`` its luma."""
    data = save(draw(61, 43), name)
    rgb = load_one(data, 40, 28)
    assert (load_one(data, 40, 28, pix_fmt="bgr24")[..., ::-1] == rgb).all()
    luma = (rgb.astype(float) @ [0.299, 0.587, 0.114]).round().astype(np.uint8)
    assert difference(load_one(data, 40, 28, pix_fmt="gray")[..., 0], luma).mean() < 1


@pytest.mark.parametrize("name", ["PNG", "TIFF", "JPEG2000"])
def test_sixteen_bits_are_rounded_to_eight(name: str) -> None:
    """65535 becomes 255 and what lies between its nearest level; of gray and of each colour."""
    deep = np.linspace(0, 65535, 61 * 43).astype(np.uint16).reshape(43, 61)
    expected = np.round(deep / 257).astype(np.uint8)
    data = save(Image.fromarray(deep), name)
    assert (load_whole(data, deep.shape) == expected[..., None]).all()


def test_sixteen_bits_of_three_colours() -> None:
    """Pillow cannot write such a PNG; the ffmpeg tool can."""
    deep = np.random.default_rng(0).integers(0, 65536, (9, 13, 3), np.uint16)
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb48le", "-s", "13x9", "-i", "pipe:"]
    data = run_ffmpeg(*raw, "-f", "image2pipe", "-c:v", "png", "-pix_fmt", "rgb48be", "-", stdin=deep.tobytes())
    assert (load_whole(data, deep.shape) == np.round(deep / 257).astype(np.uint8)).all()


def test_transparent_pixels_show_their_colour() -> None:
    """As ``convert("RGB")`` does: alpha is left out, not blended."""
    picture = draw(40, 30).convert("RGBA")
    picture.putalpha(0)
    for name, options in (("PNG", {}), ("WEBP", {"lossless": True, "exact": True}), ("GIF", {})):
        expected = of_pillow(data := save(picture, name, **options))
        assert (load_whole(data, expected.shape) == expected).all(), name


@pytest.mark.parametrize("colours", [2, 4, 16], ids=lambda colours: f"{colours}-colours")
def test_palettes_of_few_bits(colours: int) -> None:
    """One, two and four bits a pixel."""
    picture = draw(61, 43).quantize(colours)
    for name in ("PNG", "BMP", "GIF"):
        expected = of_pillow(data := save(picture, name))
        assert (load_whole(data, expected.shape) == expected).all(), name


def animated(name: str, **options: Any) -> bytes:
    first, *others = (draw(60, 40, seed=seed) for seed in range(3))
    return save(first, name, save_all=True, append_images=others, duration=100, **options)


@pytest.mark.parametrize(
    ("name", "options"), [("GIF", {}), ("PNG", {}), ("WEBP", {}), ("WEBP", {"lossless": True}), ("AVIF", {})], ids=str
)
def test_of_an_animation_the_first_picture_is_loaded(name: str, options: dict[str, Any]) -> None:
    """As Pillow shows it."""
    expected = of_pillow(data := animated(name, **options))
    assert difference(load_whole(data, expected.shape), expected).mean() <= 0.3


def test_first_frame_smaller_than_its_canvas_is_placed_on_black() -> None:
    """An animated WebP whose first frame covers a part of the canvas."""
    picture = Image.new("RGBA", (60, 40))
    picture.paste(draw(20, 14), (10, 12))
    for options in ({"lossless": True}, {"quality": 90}):
        data = save(picture, "WEBP", save_all=True, append_images=[draw(60, 40)], minimize_size=True, **options)
        expected = of_pillow(data)
        assert difference(load_whole(data, expected.shape), expected).mean() <= 0.3


def test_video_gives_its_first_picture() -> None:
    """A clip among the images is an image."""
    data = run_ffmpeg("-f", "lavfi", "-i", "color=red:size=32x24:duration=0.2", "-f", "matroska", "-")
    assert np.abs(load_one(data, 32, 24).astype(int) - [254, 0, 0]).max() <= 4


@pytest.mark.parametrize("pix_fmt", ["bgr24", "yuvj444p", "yuvj420p"])
def test_lossless_jpeg_is_decoded_by_ffmpeg(pix_fmt: str, tmp_path: Path) -> None:
    """A process of JPEG that libjpeg-turbo does not decode."""
    (tmp_path / "in.png").write_bytes(save(draw(64, 48), "PNG"))
    data = run_ffmpeg("-i", tmp_path / "in.png", "-pix_fmt", pix_fmt, "-c:v", "ljpeg", "-f", "image2pipe", "-")
    assert psnr(load_one(data, 64, 48), np.asarray(draw(64, 48))) > (90 if pix_fmt == "bgr24" else 30)


@pytest.mark.parametrize("depth", ["yuv420p10le", "yuv444p10le", "yuv420p"])
@pytest.mark.parametrize("matrix", ["bt709", "smpte170m", "bt2020nc"])
def test_matrix_and_depth_of_avif_are_understood(matrix: str, depth: str, tmp_path: Path) -> None:
    """Colours come back, whatever they were stored as."""
    (tmp_path / "in.png").write_bytes(save(draw(64, 48), "PNG"))
    path = tmp_path / "out.avif"
    run_ffmpeg(
        "-i", tmp_path / "in.png", "-vf", f"scale=out_color_matrix={matrix.replace('nc', '')},format={depth}",
        "-colorspace", matrix, "-color_range", "tv", "-c:v", "libaom-av1", "-crf", "4", "-cpu-used", "8",
        "-still-picture", "1", path,
    )  # fmt: skip
    expected = of_pillow(path.read_bytes())
    assert difference(load_one(path, 64, 48), expected).mean() <= 1
    assert difference(load_one(path, 64, 48), np.asarray(draw(64, 48))).mean() <= 4


def test_mixed_batch_keeps_its_order(tmp_path: Path) -> None:
    """JPEG and others, from files and memory, each what it is alone."""
    names = ["PNG", "JPEG", "WEBP", "BMP", "JPEG", "GIF", "TIFF", "AVIF", "JPEG"]
    sources: list[Any] = [save(draw(40 + i, 30, seed=i), name) for i, name in enumerate(names)]
    for i in range(0, len(sources), 2):
        path = tmp_path / f"{i}.dat"
        path.write_bytes(sources[i])
        sources[i] = path
    together = spdl.io.to_numpy(spdl.io.load_image_batch(sources, width=32, height=24))
    alone = [load_one(source, 32, 24) for source in sources]
    assert (together == np.stack(alone)).all()


def test_content_counts_and_not_the_suffix(tmp_path: Path) -> None:
    """A PNG named .jpg is a PNG, and a JPEG named .png is a JPEG."""
    picture = draw(40, 30)
    for name, suffix in (("PNG", ".jpg"), ("JPEG", ".png"), ("WEBP", ".tga"), ("BMP", "")):
        path = tmp_path / f"wrong{suffix}"
        path.write_bytes(save(picture, name))
        assert (load_one(path, 40, 30) == load_one(path.read_bytes(), 40, 30)).all()


def test_suffix_helps_a_format_without_a_mark(tmp_path: Path) -> None:
    """Targa has nothing in front that tells it."""
    path = tmp_path / "picture.tga"
    path.write_bytes(save(draw(40, 30), "TGA"))
    assert (load_one(path, 40, 30) == np.asarray(draw(40, 30))).all()


@pytest.mark.parametrize("make", [lambda n: np.full(n, 9, np.uint8), bytearray], ids=["array", "bytearray"])
def test_storage_takes_every_format(make: Callable[[int], Any]) -> None:
    """In place, with black borders whatever it held."""
    storage = make(2 * 24 * 32 * 3)
    sources = [save(draw(30, 30), "PNG"), make_jpeg(30, 30)]
    batch = spdl.io.to_numpy(spdl.io.load_image_batch(sources, width=32, height=24, storage=storage))
    assert np.shares_memory(batch, np.frombuffer(storage, np.uint8))
    assert not batch[:, :, :4].any()


@pytest.mark.parametrize("url", ["data:", "file:"])
def test_url_is_a_source(url: str, tmp_path: Path) -> None:
    """Of any protocol that FFmpeg knows, of any format."""
    import base64

    for name in ("PNG", "JPEG"):
        path = tmp_path / name
        path.write_bytes(data := save(draw(40, 30), name))
        source = f"file:{path}" if url == "file:" else "data:image/png;base64," + base64.b64encode(data).decode()
        assert (load_one(source, 40, 30) == load_one(data, 40, 30)).all()
