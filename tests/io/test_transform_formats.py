"""Images of every format through a transform, against Pillow: the same file, converted, cut and resized.

Bounds are in levels of 0 to 255, and above what was measured. The exact way equals Pillow wherever the decoder gives
what Pillow's gives. The default way resamples planes at their own resolution, blends rows before columns with weights
of 14 bits, and lets the JPEG decoder do part of the scaling. Not read are the alpha of AVIF, which is an image of its
own in the file, and the hidden colour of a gray PNG of less than 8 bits.
"""

import io
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

import spdl.io
from spdl.io import CenterCrop, Crop, ImageTransform, LongerSide, RandomCrop, RandomResizedCrop, ShorterSide
from tests.io.pictures import Pixels, difference, draw, make_jpeg, psnr
from tests.support import augment
from tests.support.media import run_ffmpeg

GOLDEN = Path(__file__).parent.parent / "golden"
COLORS = {"rgb": "RGB", "bgr": "RGB", "gray": "L", "rgba": "RGBA", "ycbcr": "YCbCr"}
# Of `exact`, which makes RGB of every picture.
EXACT_COLORS = ("rgb", "bgr", "gray", "rgba")
SIZES = {"tiny": (8, 11), "smaller": (22, 31), "larger": (60, 90), "same": (43, 61)}  # height, width


def save(picture: Image.Image, name: str, **options: Any) -> bytes:
    """The picture in that format of Pillow's."""
    stream = io.BytesIO()
    picture.save(stream, name, **options)
    return stream.getvalue()


def in_mode(mode: str) -> Image.Image:
    """A picture of 61x43 in any mode of Pillow's; alpha is a picture of its own."""
    if mode == "P":
        return draw(61, 43).quantize(64)
    if mode in ("RGBA", "LA"):
        picture = draw(61, 43).convert(mode[:-1])
        picture.putalpha(draw(61, 43, seed=3, mode="L"))
        return picture
    return draw(61, 43).convert(mode)


def stored(mode: str, name: str, **options: Any) -> bytes:
    """A picture of 61x43 in that mode and format."""
    return save(in_mode(mode), name, **options)


def with_hidden_colour(mode: str) -> bytes:
    """A PNG one of whose colours is declared transparent."""
    picture = in_mode(mode)
    return save(picture, "PNG", transparency=picture.getpixel((30, 20)))


# What keeps every pixel. AVIF does not, but its decoders agree where chroma is not enlarged.
KEPT: dict[str, Callable[[], bytes]] = {
    **{f"PNG {mode}": partial(stored, mode, "PNG") for mode in ("RGB", "RGBA", "L", "LA", "P", "1")},
    "PNG P, alpha": partial(stored, "P", "PNG", transparency=bytes(range(0, 256, 4))),
    **{f"PNG {mode}, hidden": partial(with_hidden_colour, mode) for mode in ("RGB", "L", "P")},
    "WebP RGB": partial(stored, "RGB", "WEBP", lossless=True),
    "WebP RGBA": partial(stored, "RGBA", "WEBP", lossless=True, exact=True),
    **{f"GIF {mode}": partial(stored, mode, "GIF") for mode in ("RGB", "L", "P", "1")},
    "GIF P, hidden": partial(stored, "P", "GIF", transparency=5),
    **{f"BMP {mode}": partial(stored, mode, "BMP") for mode in ("RGB", "L", "P", "1")},
    **{f"TIFF {mode}": partial(stored, mode, "TIFF") for mode in ("RGB", "RGBA", "L", "LA", "P", "1")},
    "TIFF LZW": partial(stored, "RGB", "TIFF", compression="tiff_lzw"),
    "JPEG 2000 RGBA": partial(stored, "RGBA", "JPEG2000"),
    "AVIF 4:4:4": partial(stored, "RGB", "AVIF", subsampling="4:4:4"),
    "AVIF L": partial(stored, "L", "AVIF"),
}


def ycck() -> bytes:
    """Adobe's other way to store four inks: what says CMYK is made to say YCCK."""
    data = bytearray(make_jpeg(61, 43, mode="CMYK"))
    data[data.index(b"Adobe") + 11] = 2
    return bytes(data)


JPEGS: dict[str, Callable[[], bytes]] = {
    "gray": partial(make_jpeg, 61, 43, mode="L"),
    **{name: partial(make_jpeg, 61, 43, subsampling=name) for name in ("4:4:4", "4:2:2", "4:2:0")},
    "4:1:1": (GOLDEN / "411.jpg").read_bytes,
    "4:4:0": (GOLDEN / "440.jpg").read_bytes,
    "progressive": partial(make_jpeg, 61, 43, progressive=True),
    "RGB": partial(make_jpeg, 61, 43, keep_rgb=True),
    "CMYK": partial(make_jpeg, 61, 43, mode="CMYK"),
    "YCCK": ycck,
}

LOSSY: dict[str, Callable[[], bytes]] = {
    "WebP": partial(stored, "RGB", "WEBP", quality=90),
    "WebP RGBA": partial(stored, "RGBA", "WEBP", quality=90, exact=True),
    "AVIF 4:2:0": partial(stored, "RGB", "AVIF", quality=90),
    "AVIF 4:2:2": partial(stored, "RGB", "AVIF", quality=90, subsampling="4:2:2"),
    "AVIF, limited range": partial(stored, "RGB", "AVIF", quality=90, range="limited"),
}


@cache
def made(kind: str) -> bytes:
    """The file of that name in the tables above."""
    table, _, name = kind.partition("/")
    return {"kept": KEPT, "jpeg": JPEGS, "lossy": LOSSY}[table][name]()


def upright(data: bytes, mode: str) -> Image.Image:
    """What Pillow makes of the file."""
    with Image.open(io.BytesIO(data)) as picture:
        whole = ImageOps.exif_transpose(picture)
        return (whole.convert("RGBA") if whole.mode == "P" else whole).convert(mode)  # RGB loses its alpha in silence


def pixels_of(picture: Image.Image, color: str) -> Pixels:
    """``(height, width, channels)``, in the order of that color."""
    pixels = np.atleast_3d(np.asarray(picture))
    return pixels[..., ::-1] if color == "bgr" else pixels


def expected(data: bytes, color: str, size: tuple[int, int], interpolation: Any = "bilinear") -> Pixels:
    """Converted, then resized, by Pillow. Luma and chroma are of the resized RGB, as of what is shown."""
    mode = COLORS[color]
    picture = upright(data, "RGBA" if mode == "RGBA" else "RGB")
    return pixels_of(augment.resize(picture, size, interpolation).convert(mode), color)


def load(sources: list[Any], size: int | tuple[int, int], **options: Any) -> NDArray[Any]:
    """A batch of one image for each source."""
    seeds = list(range(len(sources))) if isinstance(options.get("crop"), RandomCrop | RandomResizedCrop) else None
    transform = ImageTransform(size, **options)
    batch: NDArray[Any] = spdl.io.to_numpy(spdl.io.load_image_batch(sources, transform=transform, seeds=seeds))
    return batch


def as_shown(pixels: Pixels, color: str) -> Pixels:
    """Colours as far as their alpha lets them be seen: divided by a low one, a level's rounding becomes many."""
    if color != "rgba":
        return pixels
    seen = pixels[..., :3] * (pixels[..., 3:] / 255)
    return np.concatenate([seen.round().astype(np.uint8), pixels[..., 3:]], -1)


def assert_alike(data: bytes, color: str, *, mean: float, largest: int, exact: bool = False) -> None:
    """Asserts the bounds at each size, stretched to it."""
    for name, size in SIZES.items():
        actual = as_shown(load([data], size, color=color, exact=exact)[0], color)
        distance = difference(actual, as_shown(expected(data, color, size), color))
        assert distance.max() <= largest, name
        assert distance.mean() <= mean, name


@pytest.mark.parametrize("color", EXACT_COLORS)
@pytest.mark.parametrize("kind", KEPT)
def test_exact_way_equals_pillow(kind: str, color: str) -> None:
    """Of formats that keep every pixel: in each color, whatever the mode, smaller, larger and unscaled."""
    data = made(f"kept/{kind}")
    for name, size in SIZES.items():
        assert (load([data], size, color=color, exact=True)[0] == expected(data, color, size)).all(), name


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("kind", KEPT)
def test_default_way_is_like_pillow(kind: str, color: str) -> None:
    """The order of rounding differs; and where Pillow makes YCbCr, it cuts off what is behind the point."""
    assert_alike(made(f"kept/{kind}"), color, mean=0.6 if color == "ycbcr" else 0.3, largest=3)


@pytest.mark.parametrize("color", EXACT_COLORS)
@pytest.mark.parametrize("kind", JPEGS)
def test_exact_way_of_jpeg_is_within_one_level(kind: str, color: str) -> None:
    """The same bytes where the versions of libjpeg-turbo agree, as 2.1.5 and 3.2.0 do."""
    assert_alike(made(f"jpeg/{kind}"), color, mean=0.1, largest=1, exact=True)


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("kind", JPEGS)
def test_default_way_of_jpeg_is_like_pillow(kind: str, color: str) -> None:
    """Chroma is resampled once, from its own resolution."""
    assert_alike(made(f"jpeg/{kind}"), color, mean=0.8 if color == "ycbcr" else 0.5, largest=4)


@pytest.mark.parametrize(("color", "exact"), [*product(COLORS, [False]), *product(EXACT_COLORS, [True])])
@pytest.mark.parametrize("kind", LOSSY)
def test_lossy_formats_are_like_pillow(kind: str, color: str, exact: bool) -> None:
    """What is left is how decoders enlarge chroma."""
    assert_alike(made(f"lossy/{kind}"), color, mean=0.5, largest=6, exact=exact)


@pytest.mark.parametrize("interpolation", augment.FILTERS)
@pytest.mark.parametrize("kind", ["PNG RGB", "PNG RGBA", "PNG LA", "PNG P, alpha", "TIFF 1"])
def test_every_filter_of_every_kind_of_plane(kind: str, interpolation: str) -> None:
    """With alpha too, by which colours are multiplied before, except where samples are only chosen."""
    data = made(f"kept/{kind}")
    for size in SIZES.values():
        exact = load([data], size, color="rgba", interpolation=interpolation, exact=True)[0]
        assert (exact == expected(data, "rgba", size, interpolation)).all(), size


def test_hidden_colour_stays_where_samples_are_chosen() -> None:
    """What is transparent keeps its colour with ``nearest``, and has none with other filters."""
    picture = draw(40, 30).convert("RGBA")
    picture.putalpha(0)
    data = save(picture, "PNG")
    chosen = load([data], (15, 20), color="rgba", interpolation="nearest")[0]
    assert (chosen == np.asarray(picture.resize((20, 15), Image.Resampling.NEAREST))).all()
    assert not load([data], (15, 20), color="rgba", interpolation="box")[0].any()
    assert load([data], (15, 20), interpolation="box")[0].all(axis=-1).mean() > 0.9


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("crop", "box"),
    [
        (None, augment.Box(0, 0, 43, 61)),
        (CenterCrop(), augment.center_window(43, 61, (20, 30))),
        (Crop(4, 7, 20, 30), augment.Box(4, 7, 20, 30)),
    ],
    ids=["whole", "center", "given"],
)
def test_what_is_not_resampled_keeps_its_pixels(crop: Any, box: augment.Box, exact: bool) -> None:
    """Also what its alpha hides, wholly or in part: nothing is multiplied and divided again."""
    data = made("kept/PNG RGBA")
    shown = np.asarray(box.cut(upright(data, "RGBA")))
    assert (load([data], (box.height, box.width), color="rgba", crop=crop, exact=exact)[0] == shown).all()


def test_colours_do_not_bleed_out_of_transparent_parts() -> None:
    """A red disc whose surroundings are of a hidden green shows no green at its border."""
    pixels = np.zeros((40, 40, 4), np.uint8)
    y, x = np.mgrid[:40, :40] - 19.5
    disc = y * y + x * x < 200
    pixels[disc], pixels[~disc] = (255, 0, 0, 255), (0, 255, 0, 0)
    shown = load([save(Image.fromarray(pixels), "PNG")], 13, color="rgba")[0]
    partly = (shown[..., 3] > 0) & (shown[..., 3] < 255)
    assert partly.any()
    assert shown[partly][:, 1].max() <= 1


@pytest.mark.parametrize("mode", ["gray", "rgb", "rgba"])
def test_sixteen_bits_are_rounded_to_eight(mode: str) -> None:
    """65535 becomes 255 and what lies between its nearest level, before anything else; Pillow would cut bits off."""
    channels, pix_fmt = {"gray": (1, "gray16be"), "rgb": (3, "rgb48be"), "rgba": (4, "rgba64be")}[mode]
    deep = np.random.default_rng(0).integers(0, 65536, (43, 61, channels), np.uint16)
    raw = ["-f", "rawvideo", "-pix_fmt", pix_fmt, "-s", "61x43", "-i", "pipe:", "-f", "image2pipe", "-c:v", "png"]
    data = run_ffmpeg(*raw, "-pix_fmt", pix_fmt, "-", stdin=deep.byteswap().tobytes())
    levels = Image.fromarray(np.round(deep / 257).astype(np.uint8).squeeze())
    for color in ("rgb", "rgba") if mode == "rgba" else ("rgb",):
        shown = augment.resize(levels.convert(COLORS[color]), (20, 30), "bilinear")
        assert (load([data], (20, 30), color=color, exact=True)[0] == np.asarray(shown)).all()


def test_opaque_pictures_are_opaque() -> None:
    """Alpha is 255 where the format has none, and where its palette, mask or plane hides nothing."""
    opaque = ["PNG RGB", "PNG L", "PNG P", "PNG 1", "WebP RGB", "GIF RGB", "BMP RGB", "TIFF P", "AVIF 4:4:4"]
    sources = [*(made(f"kept/{kind}") for kind in opaque), *(made(f"jpeg/{kind}") for kind in JPEGS)]
    sources.append(save(draw(61, 43).convert("RGBA"), "PNG"))
    for exact in (False, True):
        batch = load(sources, (22, 31), color="rgba", exact=exact)
        assert (batch[..., 3] == 255).all()
        assert (batch[..., :3] == load(sources, (22, 31), exact=exact)).all()


FORMS = ["kept/PNG RGBA", "kept/PNG LA", "kept/PNG 1", "kept/WebP RGB", "jpeg/4:2:0", "jpeg/gray", "lossy/WebP RGBA"]


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("kind", FORMS)
def test_planes_are_the_pixels_by_channel(kind: str, color: str) -> None:
    """``NCHW`` is ``NHWC`` with its axes in another order."""
    data = made(kind)
    rows = load([data], (22, 31), color=color)
    planes = load([data], (22, 31), color=color, layout="NCHW")
    assert rows.shape == (1, 22, 31, len(COLORS[color]) if color != "ycbcr" else 3)
    assert (planes == rows.transpose(0, 3, 1, 2)).all()


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", FORMS)
def test_floating_point_is_the_levels_normalised(kind: str, layout: str) -> None:
    """Each type is what the levels become, rounded; with and without mean and deviation."""
    data, mean, std = made(kind), (0.4, 0.5, 0.6, 0.1), (0.2, 0.25, 0.3, 0.5)
    levels = load([data], (22, 31), color="rgba")
    axes = (0, 3, 1, 2) if layout == "NCHW" else (0, 1, 2, 3)
    for options in ({}, {"mean": mean, "std": std}):
        values = augment.normalized(levels, **options).transpose(axes)
        for dtype in (np.float32, np.float16):
            name = np.dtype(dtype).name
            loaded = load([data], (22, 31), color="rgba", dtype=name, layout=layout, **options)
            assert loaded.dtype == dtype
            assert (loaded == values.astype(dtype)).all()


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    """Of whatever format."""
    torch = pytest.importorskip("torch")
    sources = [made(kind) for kind in FORMS]
    transform = ImageTransform((22, 31), dtype="bfloat16", mean=0.5, std=0.25)
    tensor = spdl.io.to_torch(spdl.io.load_image_batch(sources, transform=transform))
    values = augment.normalized(load(sources, (22, 31)), (0.5,), (0.25,))
    assert tensor.dtype == torch.bfloat16
    assert (tensor.view(torch.int16).numpy().view(np.uint16) == augment.bfloat16_bits(values)).all()


# Options of the transform, and what they are with Pillow.
CUTS: dict[str, tuple[dict[str, Any], Callable[[Image.Image], Image.Image]]] = {
    "stretch": ({}, lambda picture: augment.resize(picture, (24, 26), "bilinear")),
    "given": (
        {"crop": Crop(3, 9, 35, 30)},
        lambda picture: augment.resized_crop(picture, augment.Box(3, 9, 35, 30), (24, 26)),
    ),
    "center": ({"crop": CenterCrop()}, lambda picture: augment.center_crop(picture, (24, 26))),
    "shorter": (
        {"resize": ShorterSide(31), "crop": CenterCrop()},
        lambda picture: augment.center_crop(augment.resize_shorter(picture, 31), (24, 26)),
    ),
    "fitted": ({"resize": LongerSide()}, lambda picture: augment.pad_to_fit(picture, (24, 26))),
}
FLIPS = {
    "none": {},
    "flip": {"flip": 1.0},
    "vertical": {"vertical_flip": 1.0},
    "both": {"flip": 1.0, "vertical_flip": 1.0},
}
TURNED: dict[str, dict[str, Any]] = {
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {},
    "AVIF": {"subsampling": "4:4:4"},
    "JPEG": {"quality": 95, "subsampling": "4:2:0"},
}


@cache
def turned(name: str, orientation: int) -> bytes:
    """A picture that is stored turned, and says so."""
    exif = Image.Exif()
    exif[274] = orientation
    return save(draw(61, 43), name, exif=exif.tobytes(), **TURNED[name])


# Free-threaded Pythons have wheels of an older one.
PILLOW_13 = pytest.mark.skipif(int(PIL.__version__.split(".")[0]) < 13, reason="needs Pillow 13's order of passes")


@PILLOW_13
@pytest.mark.parametrize("flips", FLIPS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", ["PNG", "JPEG"])
def test_cuts_and_flips_are_of_the_upright_picture(name: str, cut: str, flips: str) -> None:
    """All eight orientations in one batch: the exact way gives what Pillow gives, the other is alike."""
    options, cut_by_pillow = CUTS[cut]
    options = {**options, **FLIPS[flips]}
    sources = [turned(name, orientation) for orientation in range(1, 9)]
    exact, default = load(sources, (24, 26), exact=True, **options), load(sources, (24, 26), **options)
    for data, as_pillow, alike in zip(sources, exact, default, strict=True):
        shown = cut_by_pillow(upright(data, "RGB"))
        shown = ImageOps.mirror(shown) if "flip" in options else shown
        shown = ImageOps.flip(shown) if "vertical_flip" in options else shown
        assert difference(as_pillow, np.asarray(shown)).max() <= (1 if name == "JPEG" else 0)
        assert psnr(alike, np.asarray(shown)) >= (38 if name == "JPEG" else 50)


@PILLOW_13
@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("crop", [RandomCrop(), RandomResizedCrop(scale=(0.1, 0.6))], ids=["crop", "resized"])
def test_random_geometry_of_turned_pictures_is_as_reported(name: str, crop: Any) -> None:
    """Of every format that says how it is turned, with what ``applied`` reports done by Pillow."""
    sources = [turned(name, orientation) for orientation in range(1, 9)] * 2
    transform = ImageTransform((24, 26), crop=crop, flip=0.5, vertical_flip=0.5, exact=True)
    batch = spdl.io.load_image_batch(sources, transform=transform, seeds=list(range(16)))
    plans = [applied for applied in batch.applied if applied is not None]
    assert len(set(plans)) > 8
    for data, applied, pixels in zip(sources, plans, spdl.io.to_numpy(batch), strict=True):
        picture = upright(data, "RGB")
        assert applied.source_size == (picture.height, picture.width)
        distance = difference(pixels, np.asarray(augment.replayed(picture, applied)))
        assert distance.max() <= (1 if name == "JPEG" else 0)


@pytest.mark.parametrize("name", TURNED)
def test_without_orient_pixels_are_as_they_are_stored(name: str) -> None:
    """For who turns pictures elsewhere."""
    one, other = (load([turned(name, orientation)], (24, 26), orient=False) for orientation in (1, 6))
    assert (one == other).all()


@pytest.mark.parametrize("color", COLORS)
def test_mixed_batch_is_each_picture_alone(color: Any, tmp_path: Path) -> None:
    """JPEG and all others, from memory and files, in order, however many threads there are."""
    kinds = [kind for pair in zip(list(KEPT)[::3], JPEGS, strict=False) for kind in pair]
    data = [made(f"jpeg/{kind}" if kind in JPEGS else f"kept/{kind}") for kind in kinds]
    sources: list[Any] = [*data, *(turned(name, 6) for name in TURNED), *(made(f"lossy/{kind}") for kind in LOSSY)]
    for i in range(0, len(sources), 3):
        path = tmp_path / f"{i}.dat"
        path.write_bytes(sources[i])
        sources[i] = path
    transform = ImageTransform(24, resize=ShorterSide(30), crop=CenterCrop(), color=color)
    alone = np.concatenate([spdl.io.to_numpy(spdl.io.load_image_batch([one], transform=transform)) for one in sources])
    for num_threads in (0, 2):
        together = spdl.io.load_image_batch(sources, transform=transform, num_threads=num_threads)
        assert (spdl.io.to_numpy(together) == alone).all()


@pytest.mark.parametrize("color_range", ["tv", "pc"])
@pytest.mark.parametrize("depth", [8, 10, 12])
def test_gray_of_any_depth_and_range_is_scaled_exactly(depth: int, color_range: str, tmp_path: Path) -> None:
    """Black is 0 and white 255, and between them the nearest level; what lies beyond is cut off."""
    levels = np.linspace(0, (1 << depth) - 1, 1024).astype(np.uint8 if depth == 8 else np.uint16)
    path = tmp_path / "gray.avif"
    pix_fmt = "gray" if depth == 8 else f"gray{depth}le"
    stored_as = ("-c:v", "libaom-av1", "-aom-params", "lossless=1", "-cpu-used", "8", "-still-picture", "1")
    run_ffmpeg(
        *("-f", "rawvideo", "-pix_fmt", pix_fmt, "-s", "1024x1", "-i", "-", "-vf", f"setparams=range={color_range}"),
        *stored_as, "-pix_fmt", pix_fmt, path, stdin=levels.tobytes(),
    )  # fmt: skip
    black, white = (16 << (depth - 8), 235 << (depth - 8)) if color_range == "tv" else (0, (1 << depth) - 1)
    expected = np.floor((levels.astype(np.float64) - black) * 255 / (white - black) + 0.5).clip(0, 255)
    loaded = spdl.io.to_numpy(spdl.io.load_image_batch([path], width=1024, height=1, pix_fmt="gray"))
    assert (loaded[0, :, :, 0] == expected).all()
