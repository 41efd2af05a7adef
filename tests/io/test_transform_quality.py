"""Pixels of image transforms, against Pillow, NumPy and torchvision's order of work.

``exact=True`` promises Pillow's bytes. From PNG that is what is asked. From JPEG one level is allowed, and hardly ever
used, because Pillow comes with a libjpeg of its own. The fast way is judged as approximations are: by its signal to
noise ratio, mean and 99.9th percentile, in levels of 0 to 255.
"""

import io
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

import spdl.io
from spdl.io import CenterCrop, Crop, ImageTransform, LongerSide, RandomCrop, RandomResizedCrop, ShorterSide
from tests.io.pictures import Pixels, decode, difference, draw, encode, make_jpeg, psnr
from tests.support import augment

SIZES = [
    ((500, 375), (224, 224)),
    ((224, 168), (500, 375)),
    ((97, 61), (96, 60)),
    ((7, 5), (31, 3)),
    ((640, 480), (20, 15)),
    ((1, 1), (5, 5)),
    ((1000, 3), (10, 3)),
    ((64, 64), (64, 32)),
    ((64, 64), (64, 64)),
    ((33, 65), (32, 64)),
]  # width, height


def png(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def load(source: bytes, transform: ImageTransform, **options: Any) -> NDArray[Any]:
    """The one picture of a batch."""
    array: NDArray[Any] = spdl.io.to_numpy(spdl.io.load_image_batch([source], transform=transform, **options))[0]
    return array


# ------------------------------------------------------------------------------------- exact: the bytes of Pillow, PNG


@pytest.mark.parametrize(("before", "after"), SIZES, ids=str)
@pytest.mark.parametrize("interpolation", augment.FILTERS)
def test_exact_resampling_gives_the_bytes_of_pillow(
    before: tuple[int, int], after: tuple[int, int], interpolation: augment.Interpolation
) -> None:
    """Every filter, growing, shrinking and both at once."""
    picture = draw(*before)
    transform = ImageTransform(after[::-1], interpolation=interpolation, exact=True)
    expected = np.asarray(picture.resize(after, augment.FILTERS[interpolation]))
    assert difference(load(png(picture), transform), expected).max() <= augment.ROUNDING


@pytest.mark.parametrize("interpolation", augment.FILTERS)
def test_exact_resampling_of_noise_gives_the_bytes_of_pillow(interpolation: augment.Interpolation) -> None:
    """Overshoot is clamped where Pillow clamps it: between the passes as well."""
    noise = Image.fromarray(np.random.default_rng(0).choice(np.array([0, 255], np.uint8), (150, 131, 3)))
    for size in ((64, 64), (200, 300), (150, 40), (149, 130)):
        expected = np.asarray(noise.resize(size[::-1], augment.FILTERS[interpolation]))
        transform = ImageTransform(size, interpolation=interpolation, exact=True)
        assert difference(load(png(noise), transform), expected).max() <= augment.ROUNDING


@pytest.mark.parametrize(
    ("transform", "length"),
    [
        (ImageTransform(224, resize=ShorterSide(256), crop=CenterCrop(), exact=True), 256),
        (ImageTransform(224, resize=ShorterSide(248), crop=CenterCrop(), interpolation="bicubic", exact=True), 248),
    ],
    ids=["ResNet", "ViT"],
)
@pytest.mark.parametrize("size", [(500, 375), (375, 500), (640, 427), (300, 301)], ids=str)
def test_evaluation_is_that_of_torchvision(transform: ImageTransform, length: int, size: tuple[int, int]) -> None:
    """The bytes from PNG, within a level from JPEG."""
    picture = draw(*size)

    def expected(picture: Image.Image) -> Pixels:
        resized = augment.resize_shorter(picture, length, transform.interpolation)
        return np.asarray(augment.center_crop(resized, (224, 224)))

    assert difference(load(png(picture), transform), expected(picture)).max() <= augment.ROUNDING
    data = encode(picture)
    distance = difference(load(data, transform), expected(decode(data)))
    assert distance.max() <= 1
    assert distance.mean() <= 0.05


@pytest.mark.parametrize("size", [(60, 40), (40, 60), (30, 30), (51, 81)], ids=str)
def test_center_crop_of_small_pictures_is_padded(size: tuple[int, int]) -> None:
    """As torchvision pads, with the colour asked for."""
    picture = draw(*size)
    transform = ImageTransform((50, 50), crop=CenterCrop(), fill=(10, 20, 30), exact=True)
    expected = np.asarray(augment.center_crop(picture, (50, 50), (10, 20, 30)))
    assert (load(png(picture), transform) == expected).all()
    fast = ImageTransform((50, 50), crop=CenterCrop(), fill=(10, 20, 30))
    assert (load(png(picture), fast) == expected).all()


@pytest.mark.parametrize("position", ["center", "top_left"])
@pytest.mark.parametrize("size", [(500, 375), (375, 500), (20, 3), (224, 97)], ids=str)
def test_fitted_pictures_are_padded(size: tuple[int, int], position: Any) -> None:
    """Fitted, placed, and the rest of the canvas filled."""
    picture = draw(*size)
    transform = ImageTransform((97, 224), resize=LongerSide(position), fill=(9, 99, 199), exact=True)
    expected = augment.pad_to_fit(picture, (97, 224), is_centered=position == "center", fill=(9, 99, 199))
    assert (load(png(picture), transform) == np.asarray(expected)).all()


def random_transform(rng: random.Random) -> ImageTransform:
    """Any of the combinations that there are."""
    size = (rng.randint(1, 130), rng.randint(1, 130))
    resize, crop = rng.choice(
        [
            (None, None),
            (None, CenterCrop()),
            (None, RandomCrop()),
            (None, RandomResizedCrop()),
            (None, RandomResizedCrop(scale=(0.01, 0.3), ratio=(0.2, 5.0))),
            (None, Crop(3, 5, 17, 20)),
            (LongerSide(), None),
            (LongerSide("top_left"), Crop(4, 2, 17, 20)),
            (ShorterSide(max(size) + rng.randint(0, 40)), CenterCrop()),
            (ShorterSide(max(size) + rng.randint(0, 40)), RandomCrop()),
        ]
    )
    return ImageTransform(
        size, resize=resize, crop=crop, flip=0.5, vertical_flip=0.5, interpolation=rng.choice(list(augment.FILTERS)),
        fill=(1, 2, 3), exact=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", range(8))
def test_what_is_reported_is_what_was_done(number: int) -> None:
    """Any transform: the recorded geometry, replayed with Pillow, gives the same bytes; replayed by ours, too."""
    rng = random.Random(number)
    for _ in range(15):
        picture = draw(rng.randint(25, 300), rng.randint(25, 300), seed=number)
        transform = random_transform(rng)
        seed = rng.getrandbits(64)
        buffer = spdl.io.load_image_batch([png(picture)], transform=transform, seeds=[seed])
        (applied,) = buffer.applied
        assert applied is not None
        assert applied == transform.plan(picture.height, picture.width, seed)
        pixels = spdl.io.to_numpy(buffer)[0]
        expected = np.asarray(augment.replayed(picture, applied, transform.interpolation, (1, 2, 3)))
        assert difference(pixels, expected).max() <= augment.ROUNDING, (transform, applied)
        assert (load(png(picture), transform, replay=[applied]) == pixels).all()


@pytest.mark.parametrize("interpolation", augment.FILTERS)
def test_alpha_is_resampled_as_pillow_does(interpolation: augment.Interpolation) -> None:
    """Colours are multiplied by alpha, resampled and divided again."""
    picture = draw(90, 70).convert("RGBA")
    alpha = np.asarray(draw(90, 70, seed=3, mode="L")).astype(int) * 2 - 150
    picture.putalpha(Image.fromarray(np.clip(alpha, 0, 255).astype(np.uint8)))
    transform = ImageTransform((50, 41), color="rgba", interpolation=interpolation, exact=True)
    expected = np.asarray(picture.resize((41, 50), augment.FILTERS[interpolation]))
    assert difference(load(png(picture), transform), expected).max() <= augment.ROUNDING


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "I;16"])
def test_other_kinds_of_png_are_like_pillow(mode: str) -> None:
    """Gray, palettes, one bit, alpha that is not asked for."""
    gray = draw(80, 60, mode="L")
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(gray).astype(np.uint16) * 257)
        rgb = gray.convert("RGB")
    else:
        picture = draw(80, 60).quantize(64) if mode == "P" else gray.convert(mode)
        rgb = picture.convert("RGB")
    transform = ImageTransform((33, 44), exact=True)
    assert difference(load(png(picture), transform), np.asarray(augment.resize(rgb, (33, 44), "bilinear"))).max() <= 1


@pytest.mark.parametrize("interpolation", augment.FILTERS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_on_their_side_are_turned_before_they_are_resampled(
    orientation: int, interpolation: augment.Interpolation
) -> None:
    """Pillow's bytes of the upright picture, although it is stored otherwise."""
    picture = draw(71, 53)
    exif = Image.Exif()
    exif[274] = orientation
    stream = io.BytesIO()
    picture.save(stream, "PNG", exif=exif)
    upright = ImageOps.exif_transpose(Image.open(stream))
    for transform in (
        ImageTransform((40, 33), crop=Crop(5, 3, 41, 50), interpolation=interpolation, exact=True),
        ImageTransform((60, 90), resize=LongerSide("top_left"), flip=1.0, interpolation=interpolation, exact=True),
        ImageTransform(30, resize=ShorterSide(40), crop=RandomCrop(), interpolation=interpolation, exact=True),
    ):
        (applied,) = spdl.io.load_image_batch([stream.getvalue()], transform=transform, seeds=[1]).applied
        assert applied is not None
        assert applied.source_size == (upright.height, upright.width)
        expected = np.asarray(augment.replayed(upright, applied, interpolation))
        assert difference(load(stream.getvalue(), transform, seeds=[1]), expected).max() <= augment.ROUNDING
        fast = load(stream.getvalue(), replace(transform, exact=False), seeds=[1])
        # On the way back, ties between two samples fall the other way.
        assert psnr(fast, expected) >= {"nearest": 30, "box": 45}.get(interpolation, 48)


# --------------------------------------------------------------------------------------------- exact: JPEG and others

KINDS: dict[str, dict[str, Any]] = {
    "444": {"subsampling": "4:4:4"},
    "422": {"subsampling": "4:2:2"},
    "420": {"subsampling": "4:2:0"},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_blocks": 3},
    "gray": {"mode": "L"},
    "rgb": {"keep_rgb": True},
}
GOLDEN = ("440", "411", "410")


def jpeg(kind: str, width: int = 151, height: int = 113) -> bytes:
    """A JPEG; those that Pillow cannot write are kept, in their own size."""
    if kind in GOLDEN:
        return (Path(__file__).parent.parent / "golden" / f"{kind}.jpg").read_bytes()
    return make_jpeg(width, height, **KINDS[kind])


@pytest.mark.parametrize("interpolation", ["nearest", "box", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("kind", KINDS)
def test_exact_jpeg_is_within_a_level_of_pillow(kind: str, interpolation: augment.Interpolation) -> None:
    """Decoded as Pillow decodes, whatever the coding: same size, smaller, larger."""
    for size in ((113, 151), (64, 64), (200, 180)):
        data = jpeg(kind)
        transform = ImageTransform(size, interpolation=interpolation, exact=True)
        expected = np.asarray(augment.resize(decode(data), size, interpolation))
        distance = difference(load(data, transform), expected)
        assert distance.max() <= 1
        assert distance.mean() <= 0.05


@pytest.mark.parametrize("kind", ["webp", "gif", "bmp", "tiff"])
def test_exact_ways_of_other_formats_are_like_pillow(kind: str) -> None:
    """Formats without loss: the bytes."""
    picture = draw(90, 70)
    if kind == "gif":
        picture = picture.quantize(128)
    stream = io.BytesIO()
    picture.save(stream, kind, **({"lossless": True} if kind == "webp" else {}))
    transform = ImageTransform((40, 50), exact=True)
    expected = np.asarray(augment.resize(picture.convert("RGB"), (40, 50), "bilinear"))
    assert difference(load(stream.getvalue(), transform), expected).max() <= augment.ROUNDING


# ------------------------------------------------------------------------------------------------------- the fast way

# Filter: mean and 99.9th percentile of the difference that are accepted on photographs of 4:2:0. Blocks that the codec
# shrinks are cut at other places than a box of its own would be.
FAST: dict[augment.Interpolation, tuple[float, int]] = {
    "box": (0.6, 10),
    "bilinear": (0.4, 3),
    "bicubic": (0.4, 4),
    "lanczos": (0.4, 4),
}


@pytest.mark.parametrize("interpolation", FAST)
@pytest.mark.parametrize(
    "transform",
    [
        ImageTransform(224, resize=ShorterSide(256), crop=CenterCrop()),
        ImageTransform(224, crop=RandomResizedCrop(), flip=0.5),
        ImageTransform((168, 224)),
        ImageTransform((600, 500)),
    ],
    ids=["evaluation", "training", "stretch", "enlarge"],
)
def test_the_fast_way_is_close_to_the_exact_one(
    interpolation: augment.Interpolation, transform: ImageTransform
) -> None:
    """On photographs: at least 48 dB, and few pixels far off."""
    mean, percentile = FAST[interpolation]
    for seed, size in enumerate([(500, 375), (375, 500), (640, 427)]):
        data = make_jpeg(*size, seed=seed)
        check_close(data, transform, interpolation, seed, mean, percentile)


@pytest.mark.parametrize("interpolation", FAST)
def test_thumbnails_of_large_photographs_are_close(interpolation: augment.Interpolation) -> None:
    """Where the decoder does most of the shrinking."""
    mean, percentile = FAST[interpolation]
    data = LARGE.setdefault("large", make_jpeg(1600, 1200))
    for size in (500, 224, 150, 100, 64):
        transform = ImageTransform(size, resize=ShorterSide(size), crop=CenterCrop())
        check_close(data, transform, interpolation, 0, mean, percentile)


LARGE: dict[str, bytes] = {}


def check_close(
    data: bytes,
    transform: ImageTransform,
    interpolation: augment.Interpolation,
    seed: int,
    mean: float,
    percentile: float,
) -> None:
    fast = load(data, replace(transform, interpolation=interpolation), seeds=[seed])
    exact = load(data, replace(transform, interpolation=interpolation, exact=True), seeds=[seed])
    distance = difference(fast, exact)
    assert psnr(fast, exact) >= 48
    assert distance.mean() <= mean
    assert np.percentile(distance, 99.9) <= percentile


# Those that overshoot are clamped in between, where the order of work counts.
LOSSLESS: dict[augment.Interpolation, float] = {"nearest": 0, "box": 1, "bilinear": 1, "bicubic": 6, "lanczos": 8}


@pytest.mark.parametrize("interpolation", LOSSLESS)
def test_the_fast_way_without_loss_is_within_rounding(interpolation: augment.Interpolation) -> None:
    """Of PNG, only the order of work and the width of the weights differ."""
    picture = draw(300, 220)
    for size in ((100, 130), (220, 300), (300, 400)):
        fast = load(png(picture), ImageTransform(size, interpolation=interpolation))
        expected = np.asarray(augment.resize(picture, size, interpolation))
        distance = difference(fast, expected)
        assert distance.max() <= LOSSLESS[interpolation]
        assert distance.mean() <= 0.3


# ------------------------------------------------------------------------------------------------ colours and elements

COLORS: tuple[Any, ...] = ("rgb", "bgr", "gray", "rgba", "ycbcr")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_floats_are_numpy_arithmetic_on_the_levels(dtype: Any, layout: Any, exact: bool) -> None:
    """Bit for bit: a product and a sum in ``float32``, rounded once more to the half types."""
    kinds: list[tuple[tuple[int, int], Any, tuple[float, ...], tuple[float, ...]]] = [
        ((64, 80), "rgb", MEAN, STD),
        ((33, 7), "bgr", MEAN, STD),
        ((31, 129), "gray", (0.5,), (0.25,)),
        ((17, 19), "rgba", (0.1, 0.2, 0.3, 0.4), (1.0, 2.0, 0.5, 3.0)),
        ((5, 3), "bgr" if exact else "ycbcr", (0.0, 1.0, 0.5), (1.0, 2.0, 0.1)),
    ]
    for size, color, mean, std in kinds:
        data = make_jpeg(100, 75)
        levels = load(data, ImageTransform(size, color=color, exact=exact))
        floats: Any = ImageTransform(
            size, color=color, dtype=dtype, mean=mean, std=std, layout=layout, exact=exact
        )  # fmt: skip
        expected = augment.normalized(levels, mean, std)
        channels = 1 if color == "gray" else 4 if color == "rgba" else 3
        shape = (channels, *size) if layout == "NCHW" else (*size, channels)
        if layout == "NCHW":
            expected = expected.transpose(2, 0, 1)
        if dtype == "bfloat16":
            out = np.zeros((1, *shape, 2), np.uint8)
            spdl.io.load_image_batch([data], transform=floats, out=out.reshape(-1))
            assert (out.view(np.uint16)[0, ..., 0] == augment.bfloat16_bits(expected)).all()
        else:
            actual = load(data, floats)
            assert (actual.dtype, actual.shape) == (np.dtype(dtype), shape)
            kind = np.uint32 if dtype == "float32" else np.uint16
            assert (actual.view(kind) == np.ascontiguousarray(expected.astype(dtype)).view(kind)).all()


def test_every_level_is_normalized_as_numpy_does() -> None:
    """All 256 of them, with many means and deviations, those that overflow halves included."""
    picture = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).convert("RGB")
    rng = np.random.default_rng(0)
    for _ in range(30):
        mean = tuple(rng.uniform(-2, 2, 3).tolist())
        std = tuple((10.0 ** rng.uniform(-6, 3, 3)).tolist())
        expected = augment.normalized(np.asarray(picture), mean, std)
        for dtype in ("float32", "float16"):
            transform: Any = ImageTransform(16, dtype=dtype, mean=mean, std=std)
            with np.errstate(over="ignore"):
                same = np.array_equal(load(png(picture), transform), expected.astype(dtype))
            assert same, (mean, std, dtype)


@pytest.mark.parametrize("source", ["png", "420", "gray"])
@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
def test_planar_is_the_transpose_of_packed(source: str, exact: bool) -> None:
    """``NCHW`` has the same values, padding and flips included."""
    data = png(draw(90, 61)) if source == "png" else jpeg(source)
    for color in COLORS[: 4 if exact else 5]:
        options: Any = {"resize": LongerSide(), "fill": 7, "flip": 1.0, "color": color, "exact": exact}
        packed = load(data, ImageTransform((70, 83), **options), seeds=[0])
        planar = load(data, ImageTransform((70, 83), layout="NCHW", **options), seeds=[0])
        assert (planar.transpose(1, 2, 0) == packed).all()


@pytest.mark.parametrize("kind", ["png", *KINDS])
@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
def test_colours_are_related(kind: str, exact: bool) -> None:
    """bgr is rgb in reverse, rgba adds 255, gray is luma."""
    data = png(draw(151, 113)) if kind == "png" else jpeg(kind)
    for size in ((113, 151), (50, 60)):
        rgb, bgr, gray, rgba = (load(data, ImageTransform(size, color=each, exact=exact)) for each in COLORS[:4])
        assert (bgr == rgb[..., ::-1]).all()
        assert (rgba[..., :3] == rgb).all()
        assert (rgba[..., 3] == 255).all()
        luma = np.asarray(Image.fromarray(rgb).convert("L"))
        assert difference(gray[..., 0], luma).mean() <= 0.6


@pytest.mark.parametrize("kind", ["png", *KINDS])
def test_ycbcr_is_what_rgb_is_made_of(kind: str) -> None:
    """The planes as they are coded, or as BT.601 has them."""
    data = png(draw(151, 113)) if kind == "png" else jpeg(kind)
    for size in ((113, 151), (50, 60)):
        rgb, gray, ycbcr = (load(data, ImageTransform(size, color=each)) for each in ("rgb", "gray", "ycbcr"))
        assert difference(gray, ycbcr[..., :1]).max() <= 1
        if kind == "gray":
            assert (ycbcr[..., 1:] == 128).all()
        back = np.asarray(Image.fromarray(ycbcr, "YCbCr").convert("RGB"))
        assert psnr(back, rgb) >= 46
