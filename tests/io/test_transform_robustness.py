"""Image transforms under what the world sends: odd files, bombs, and damage of every kind."""

import io
import resource
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import spdl.io
from spdl.io import CenterCrop, Crop, ImageTransform, LongerSide, MediaError, RandomResizedCrop, ShorterSide
from tests.io.pictures import decode, difference, draw, make_jpeg, psnr, with_png_checks
from tests.support import augment

TRAINING = ImageTransform((24, 20), crop=RandomResizedCrop(), flip=0.5, dtype="float32", layout="NCHW")
EVALUATION = ImageTransform(24, resize=ShorterSide(28), crop=CenterCrop(), exact=True)
TRANSFORMS = [
    TRAINING,
    EVALUATION,
    ImageTransform((30, 20), resize=LongerSide(), fill=1, color="ycbcr"),
    ImageTransform((7, 9), crop=Crop(2, 3, 11, 13), color="rgba", interpolation="lanczos"),
    ImageTransform((60, 70), crop=CenterCrop(), color="gray", dtype="float16"),
]


def saved(name: str, mode: str = "RGB", **options: Any) -> bytes:
    """A picture in one of Pillow's formats."""
    stream = io.BytesIO()
    picture = draw(48, 36)
    (picture.quantize(32) if mode == "P" else picture.convert(mode)).save(stream, name, **options)
    return stream.getvalue()


EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
JPEGS = {
    "420": make_jpeg(48, 36),
    "422": make_jpeg(33, 50, subsampling="4:2:2"),
    "progressive": make_jpeg(40, 30, progressive=True),
    "cmyk": make_jpeg(24, 24, mode="CMYK"),
    "gray with restarts": make_jpeg(40, 40, mode="L", restart_marker_blocks=2),
    "turned": make_jpeg(64, 20, exif=EXIF),
}
SEEDS = {
    **JPEGS,
    "png": saved("PNG"),
    "png palette": saved("PNG", "P"),
    "png alpha": saved("PNG", "RGBA"),
    "gif": saved("GIF"),
    "bmp": saved("BMP"),
    "webp": saved("WEBP"),
    "webp alpha": saved("WEBP", "RGBA", lossless=True),
    "tiff": saved("TIFF", compression="tiff_lzw"),
    "avif": saved("AVIF"),
}


def load(sources: list[Any], transform: ImageTransform = EVALUATION, **options: Any) -> Any:
    """A batch as an array."""
    return spdl.io.to_numpy(
        spdl.io.load_image_batch(sources, transform=transform, seeds=range(len(sources)), **options)
    )


# ------------------------------------------------------------------------------------------- what ImageNet is known for


def test_cmyk_is_like_pillow() -> None:
    """ImageNet's training set has 22 of them."""
    data = make_jpeg(90, 70, mode="CMYK")
    expected = np.asarray(augment.center_crop(augment.resize_shorter(decode(data), 28), (24, 24)))
    assert difference(load([data])[0], expected).max() <= 3
    assert psnr(load([data], ImageTransform(24, resize=ShorterSide(28), crop=CenterCrop()))[0], expected) >= 38


def test_contents_decide_and_not_the_name(tmp_path: Path) -> None:
    """ImageNet has a PNG that is called JPEG."""
    path = tmp_path / "n02105855_2933.JPEG"
    path.write_bytes(saved("PNG"))
    assert (load([path]) == load([saved("PNG")])).all()


def test_trailing_garbage_changes_nothing() -> None:
    """After the end of the image, anything may follow; so it may in front of the first marker's payload."""
    for name in ("420", "progressive", "png", "webp"):
        for garbage in (b"\0" * 3000, b"\xff" * 50, b"junk" * 99, SEEDS["422"]):
            if name.startswith("png") or name in JPEGS:
                assert (load([SEEDS[name] + garbage]) == load([SEEDS[name]])).all()


def exif_jpeg(exif: bytes) -> bytes:
    data = make_jpeg(64, 20)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]


WRONG_EXIF = [
    b"",
    b"Exif\0\0",
    b"Exif\0\0XX",
    b"Exif\0\0" + b"\xff" * 99,
    EXIF[:20],
    EXIF.replace(b"\0\x06", b"\0\x09"),
    EXIF.replace(b"\0\0\0\x08", b"\xff\xff\xff\xf0"),
    EXIF.replace(b"\x01\x12\0\x03", b"\x01\x12\0\x0c"),
]


@pytest.mark.parametrize("exif", WRONG_EXIF, ids=repr)
def test_wrong_exif_changes_nothing(exif: bytes) -> None:
    """Orientations that there are not, offsets that lead nowhere."""
    assert (load([exif_jpeg(exif)]) == load([make_jpeg(64, 20)])).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
def test_crops_are_of_the_upright_picture(orientation: int, exact: bool) -> None:
    """A window of a picture that is stored on its side is where it is seen to be."""
    with Image.open(io.BytesIO(exif_jpeg(EXIF.replace(b"\0\x06", bytes([0, orientation]))))) as stored:
        upright = ImageOps.exif_transpose(stored).convert("RGB")
    data = exif_jpeg(EXIF.replace(b"\0\x06", bytes([0, orientation])))
    box = (3, 5, 11, 13)
    transform = ImageTransform((11, 13), crop=Crop(*box), exact=exact)
    buffer = spdl.io.load_image_batch([data], transform=transform)
    (applied,) = buffer.applied
    assert applied is not None
    assert applied.source_size == (upright.height, upright.width)
    expected = np.asarray(augment.Box(*box).cut(upright))
    pixels = spdl.io.to_numpy(buffer)[0]
    assert difference(pixels, expected).mean() <= (0.05 if exact else 3)
    unturned = ImageTransform((11, 13), crop=Crop(*box), exact=exact, orient=False)
    flat = np.asarray(augment.Box(*box).cut(decode(data)))
    assert difference(spdl.io.to_numpy(spdl.io.load_image_batch([data], transform=unturned))[0], flat).mean() <= (
        0.05 if exact else 3
    )


@pytest.mark.parametrize("kind", SEEDS)
def test_every_truncation_is_an_image_or_an_error(kind: str) -> None:
    """From nothing to all but the last byte."""
    data = SEEDS[kind]
    sources = [data[: len(data) * i // 24] for i in range(24)] + [data[:-1], data]
    for transform in TRANSFORMS[:2]:
        buffer = spdl.io.load_image_batch(sources, transform=transform, seeds=range(26), strict=False)
        assert all(isinstance(failure.error, MediaError) for failure in buffer.failures)
        failed = {failure.index for failure in buffer.failures}
        assert 0 in failed
        assert 25 not in failed
        assert buffer.origins == tuple(i for i in range(26) if i not in failed)


def test_empty_and_missing_files_are_told_apart(tmp_path: Path) -> None:
    """The error says which source, and why."""
    empty = tmp_path / "empty.jpg"
    empty.write_bytes(b"")
    sources: list[Any] = [empty, tmp_path / "missing.jpg", b"", b"\xff\xd8\xff", tmp_path, SEEDS["420"]]
    buffer = spdl.io.load_image_batch(sources, transform=EVALUATION, strict=False)
    assert [failure.index for failure in buffer.failures] == [0, 1, 2, 3, 4]
    assert isinstance(buffer.failures[1].error, FileNotFoundError)
    assert "empty.jpg" in str(buffer.failures[0].error)


# ---------------------------------------------------------------------------------------------------------------- bombs


def bombs() -> dict[str, bytes]:
    """Headers of 30000 x 30000 on next to no data."""
    size = struct.pack(">HH", 30000, 30000)
    found = {}
    for name in ("420", "progressive", "gray with restarts"):
        data = bytearray(JPEGS[name])
        frame = data.index(b"\xff\xc2" if name == "progressive" else b"\xff\xc0")
        data[frame + 5 : frame + 9] = size
        found[name] = bytes(data)
    data = bytearray(SEEDS["png"])
    data[16:24] = struct.pack(">II", 30000, 30000)
    found["png"] = with_png_checks(bytes(data))
    data = bytearray(SEEDS["bmp"])
    data[18:26] = struct.pack("<ii", 30000, 30000)
    found["bmp"] = bytes(data)
    data = bytearray(SEEDS["gif"])
    data[6:10] = struct.pack("<HH", 30000, 30000)
    found["gif"] = bytes(data)
    return found


@pytest.mark.parametrize("kind", bombs())
@pytest.mark.parametrize("transform", TRANSFORMS, ids=["training", "evaluation", "fit", "crop", "center"])
def test_bombs_are_refused_by_their_size(kind: str, transform: ImageTransform) -> None:
    """The message has the size and the limit, and nothing of that size is allocated on the way."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    good = SEEDS["420"]
    buffer = spdl.io.load_image_batch([bombs()[kind], good], transform=transform, seeds=[1, 2], strict=False)
    (failure,) = buffer.failures
    assert isinstance(failure.error, spdl.io.ImageTooLargeError)
    assert "30000x30000" in str(failure.error)
    assert "178956970" in str(failure.error)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 20_000 * (1 if sys.platform == "linux" else 1024)


def test_large_results_are_refused_before_they_are_allocated() -> None:
    """A batch larger than memory is an error, whatever its numbers multiply to."""
    for size in (1 << 30, (1 << 31) - 1, 1 << 20):
        with pytest.raises((ValueError, MemoryError, MediaError, OverflowError)):
            spdl.io.load_image_batch([SEEDS["420"]] * 64, transform=ImageTransform(size, dtype="float32"))


def test_a_large_resized_grid_of_which_little_is_shown_is_cheap() -> None:
    """A line of a picture becomes a huge grid, of which only the middle is made."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream = io.BytesIO()
    Image.new("RGB", (20000, 1), (10, 20, 30)).save(stream, "PNG")
    transform = ImageTransform(64, resize=ShorterSide(64), crop=CenterCrop())
    for exact in (False, True):
        wide = ImageTransform(64, resize=transform.resize, crop=transform.crop, exact=exact)
        batch = load([stream.getvalue()], wide)
        assert (batch == (10, 20, 30)).all()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 150_000 * (1 if sys.platform == "linux" else 1024)
