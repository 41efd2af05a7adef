"""Saving arrays as image files, judged by Pillow."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels, draw, psnr

WIDTH, HEIGHT = 61, 43


@pytest.fixture(scope="module")
def rgb() -> Pixels:
    """A colour picture of odd size."""
    return np.asarray(draw(WIDTH, HEIGHT))


@pytest.fixture(scope="module")
def gray() -> Pixels:
    """A grey picture of odd size."""
    return np.asarray(draw(WIDTH, HEIGHT, mode="L"))


def read(path: Path, mode: str | None = None) -> Any:
    """What Pillow makes of a file."""
    with Image.open(path) as picture:
        return np.asarray(picture if mode is None else picture.convert(mode))


@pytest.mark.parametrize("extension", ["png", "bmp", "tiff", "ppm", "tga"])
def test_lossless_formats_keep_every_pixel(tmp_path: Path, rgb: Pixels, extension: str) -> None:
    """What comes back from Pillow is what was saved."""
    path = tmp_path / f"picture.{extension}"
    spdl.io.save_image(path, rgb)
    assert np.array_equal(read(path, "RGB"), rgb)


@pytest.mark.parametrize("extension", ["png", "bmp", "tiff", "pgm", "gif"])
def test_gray_pictures_are_kept_exactly(tmp_path: Path, gray: Pixels, extension: str) -> None:
    """A format with grey pictures keeps them; GIF by its palette."""
    path = tmp_path / f"picture.{extension}"
    spdl.io.save_image(str(path), gray, "gray")
    assert np.array_equal(read(path, "L"), gray)


@pytest.mark.parametrize("extension", ["png", "tiff", "pgm"])
@pytest.mark.parametrize(
    ("pix_fmt", "dtype"),
    [("gray16", "<u2"), ("gray16", ">u2"), ("gray16le", "<u2"), ("gray16be", ">u2"), ("gray16", "<i2")],
)
def test_sixteen_bits_are_kept_exactly(tmp_path: Path, extension: str, pix_fmt: str, dtype: str) -> None:
    """Pictures of 16 bits keep each value, whichever order their bytes have."""
    values = (np.arange(WIDTH * HEIGHT).reshape(HEIGHT, WIDTH) * 11) % 32768
    path = tmp_path / f"picture.{extension}"
    spdl.io.save_image(path, values.astype(dtype), pix_fmt)
    assert np.array_equal(read(path).astype(np.int64), values)


def test_bgr_is_stored_as_the_same_colours(tmp_path: Path, rgb: Pixels) -> None:
    """The order of channels is that of the pixel format, with any strides."""
    spdl.io.save_image(tmp_path / "picture.png", rgb[:, :, ::-1], "bgr24")
    assert np.array_equal(read(tmp_path / "picture.png"), rgb)


@pytest.mark.parametrize("extension", ["jpg", "jpeg"])
def test_jpeg_is_of_high_quality_by_default(tmp_path: Path, rgb: Pixels, extension: str) -> None:
    """Without options, a JPEG is within 1 dB of what Pillow makes at quality 95 without chroma subsampling."""
    path = tmp_path / f"picture.{extension}"
    spdl.io.save_image(path, rgb)
    Image.fromarray(rgb).save(tmp_path / "judge.jpg", quality=95, subsampling=0)
    assert psnr(read(path), rgb) > psnr(read(tmp_path / "judge.jpg"), rgb) - 1


def test_qscale_trades_quality_for_size(tmp_path: Path, rgb: Pixels) -> None:
    """A larger ``qscale`` makes a smaller JPEG."""
    spdl.io.save_image(tmp_path / "good.jpg", rgb, qscale=2)
    spdl.io.save_image(tmp_path / "bad.jpg", rgb, qscale=25)
    assert (tmp_path / "bad.jpg").stat().st_size < (tmp_path / "good.jpg").stat().st_size / 2
    assert psnr(read(tmp_path / "bad.jpg"), rgb) < psnr(read(tmp_path / "good.jpg"), rgb)


def test_compression_level_trades_time_for_size(tmp_path: Path, rgb: Pixels) -> None:
    """PNG without compression is larger, and as exact."""
    spdl.io.save_image(tmp_path / "large.png", rgb, compression_level=0)
    spdl.io.save_image(tmp_path / "small.png", rgb, compression_level=9)
    assert (tmp_path / "small.png").stat().st_size < (tmp_path / "large.png").stat().st_size
    assert np.array_equal(read(tmp_path / "large.png"), read(tmp_path / "small.png"))


@pytest.mark.parametrize("extension", ["jpg", "png", "tiff"])
def test_yuv444p_shows_the_colours_it_stands_for(tmp_path: Path, rgb: Pixels, extension: str) -> None:
    """Planes of BT.601 in limited range come back as the RGB that they were made of, within rounding."""
    red, green, blue = rgb.astype(np.float64).transpose(2, 0, 1) / 255
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    planes = np.stack([16 + 219 * luma, 128 + 112 * (blue - luma) / 0.886, 128 + 112 * (red - luma) / 0.701])
    path = tmp_path / f"picture.{extension}"
    spdl.io.save_image(path, planes.round().astype(np.uint8), "yuv444p")
    assert psnr(read(path, "RGB"), rgb) > (34 if extension == "jpg" else 45)


@pytest.mark.parametrize(("extension", "least"), [("webp", 30), ("gif", 18), ("jp2", 40), ("ico", 99), ("avif", 25)])
def test_other_formats_are_close(tmp_path: Path, rgb: Pixels, extension: str, least: float) -> None:
    """Formats of fewer colours or with loss come as near as they can."""
    path = tmp_path / f"picture.{extension}"
    spdl.io.save_image(path, rgb)
    assert psnr(read(path, "RGB"), rgb) >= least


def test_a_torch_tensor_is_an_array(tmp_path: Path, rgb: Pixels) -> None:
    """Tensors of the CPU are saved as arrays are, those that want a gradient too."""
    torch = pytest.importorskip("torch")
    spdl.io.save_image(tmp_path / "picture.png", torch.from_numpy(rgb.copy()))
    assert np.array_equal(read(tmp_path / "picture.png"), rgb)


def test_a_percent_sign_in_a_name_is_a_percent_sign(tmp_path: Path, rgb: Pixels) -> None:
    """``%d`` is part of the name, and the name may hold any letters."""
    for name in ("50%d.png", "grün ☃.png", "a b.png", os.fsdecode(b"\xff.png")):
        spdl.io.save_image(tmp_path / name, rgb)
        assert np.array_equal(read(tmp_path / name), rgb)
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    ("shape", "dtype", "pix_fmt", "message"),
    [
        ((4, 5), "u1", "rgb24", r"shape must be \(height, width, 3\) for rgb24, got \(4, 5\)"),
        ((4, 5, 4), "u1", "rgb24", "shape must be"),
        ((4, 5, 1), "u1", "gray", r"shape must be \(height, width\) for gray"),
        ((4, 5, 3), "u1", "yuv444p", r"shape must be \(3, height, width\)"),
        ((0, 5, 3), "u1", "rgb24", "shape must be"),
        ((4, 5), "u2", "gray", "dtype must be an integer of 8 bits for gray, got uint16"),
        ((4, 5), "u1", "gray16", "dtype must be an integer of 16 bits for gray16, got uint8"),
        ((4, 5), "f2", "gray16", "dtype must be an integer of 16 bits"),
        ((4, 5, 3), "f4", "rgb24", "dtype must be"),
        ((4, 5, 3), "?", "rgb24", "dtype must be"),
        ((4, 5), ">u2", "gray16le", "byte order must be that of gray16le"),
        ((4, 5, 3), "u1", "yuv420p", "pix_fmt must be one of 'rgb24'"),
        ((4, 5, 3), "u1", "nonsense", "pix_fmt must be one of"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, pix_fmt: str, message: str
) -> None:
    """Shape, dtype and format have to agree; nothing is written otherwise."""
    with pytest.raises(ValueError, match=message):
        spdl.io.save_image(tmp_path / "picture.png", np.zeros(shape, dtype), pix_fmt)
    assert list(tmp_path.iterdir()) == []


def test_encode_image_is_save_image_with_a_config(tmp_path: Path, rgb: Pixels) -> None:
    """The same file comes out, whether options are apart or one object."""
    config = spdl.io.video_encode_config(height=HEIGHT, width=WIDTH, qscale=9)
    spdl.io.encode_image(tmp_path / "a.jpg", rgb, encode_config=config)
    spdl.io.save_image(tmp_path / "b.jpg", rgb, qscale=9)
    spdl.io.encode_image(str(tmp_path / "c.png"), rgb)
    assert (tmp_path / "a.jpg").read_bytes() == (tmp_path / "b.jpg").read_bytes()
    assert np.array_equal(read(tmp_path / "c.png"), rgb)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": HEIGHT + 1}, "height of encode_config must be that of the data, 43, got 44"),
        ({"width": 1}, "width of encode_config must be that of the data, 61, got 1"),
        ({"pix_fmt": "bgr24"}, "pix_fmt of encode_config must be that of the data, 'rgb24', got 'bgr24'"),
    ],
)
def test_a_config_for_another_picture_is_refused(
    tmp_path: Path, rgb: Pixels, options: dict[str, Any], message: str
) -> None:
    """Size and pixel format of the config are those of the data."""
    config = spdl.io.video_encode_config(**{"height": HEIGHT, "width": WIDTH, **options})
    with pytest.raises(ValueError, match=message):
        spdl.io.encode_image(tmp_path / "picture.png", rgb, encode_config=config)


def test_an_unknown_extension_is_an_error(tmp_path: Path, rgb: Pixels) -> None:
    """The message says that the extension means nothing."""
    for name in ("picture.xyz", "picture"):
        with pytest.raises(spdl.io.MuxError, match=f"{name}: no format has this extension"):
            spdl.io.save_image(tmp_path / name, rgb)


def test_what_cannot_be_written_is_an_error(tmp_path: Path, rgb: Pixels) -> None:
    """A missing folder, a folder in the place of the file, a full disk."""
    with pytest.raises(spdl.io.MuxError, match=r"cannot write .*/no/picture.png: No such file or directory"):
        spdl.io.save_image(tmp_path / "no" / "picture.png", rgb)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(spdl.io.MuxError, match="Is a directory"):
        spdl.io.save_image(tmp_path / "folder.png", rgb)
    (tmp_path / "full.png").symlink_to("/dev/full")
    with pytest.raises(spdl.io.MuxError, match="No space left on device"):
        spdl.io.save_image(tmp_path / "full.png", rgb)


def test_a_failure_leaves_what_was_there(tmp_path: Path, rgb: Pixels) -> None:
    """The file of before is untouched if encoding fails, and nothing else is left."""
    path = tmp_path / "picture.png"
    path.write_bytes(b"before")
    with pytest.raises(spdl.io.EncodeError, match=r"unknown colorspace 'no'; known are .*bt709"):
        spdl.io.save_image(path, rgb, colorspace="no")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_replacing_keeps_the_mode_and_the_link(tmp_path: Path, rgb: Pixels) -> None:
    """A file that is replaced keeps its permissions; a link to it stays a link."""
    path, link = tmp_path / "picture.png", tmp_path / "link.png"
    path.write_bytes(b"before")
    path.chmod(0o640)
    link.symlink_to(path)
    spdl.io.save_image(link, rgb)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert np.array_equal(read(path), rgb)
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_pictures_are_saved_from_many_threads(tmp_path: Path) -> None:
    """Each file has its own picture."""
    pictures = [np.full((16, 16, 3), i, np.uint8) for i in range(8)]
    start = threading.Barrier(8)

    def save(i: int) -> None:
        start.wait()
        for _ in range(4):
            spdl.io.save_image(tmp_path / f"{i}.png", pictures[i])

    threads = [threading.Thread(target=save, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(read(tmp_path / f"{i}.png"), pictures[i]) for i in range(8))


def test_a_path_must_be_text(rgb: Pixels) -> None:
    """Bytes and numbers are no paths here."""
    with pytest.raises(TypeError, match="path must be text or path-like, got bytes"):
        spdl.io.save_image(b"picture.png", rgb)  # type: ignore[arg-type]  # the error is what is tested
    with pytest.raises(TypeError):
        spdl.io.save_image(3, rgb)  # type: ignore[arg-type]  # the error is what is tested
