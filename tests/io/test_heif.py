"""HEIC, as telephones write it: pixels against arithmetic, on files made box by box from pictures without loss."""

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from spdl.io import _native
from spdl.io.utils import get_native_info
from tests.support.heif_files import Coded, HeifFile, encode, heif_of, ycbcr_to_rgb
from tests.support.image_mutations import MAX_PIXELS, mutate

HAS_LIBHEIF = _native.media.libheif_version() is not None
HAS_ENCODER = "libx265" in get_native_info(encoders=("hevc",)).encoders.get("hevc", ())
needs_libheif = pytest.mark.skipif(not HAS_LIBHEIF, reason="this build has no libheif")
pytestmark = [needs_libheif, pytest.mark.needs("encoder libx265")]

Pixels = NDArray[np.float64]
# libheif expands limited range by 256/219.
CLOSE = 2.0


def ramps(height: int, width: int, *, bits: int = 8, is_full: bool = True) -> list[NDArray[np.int64]]:
    """Planes of one size whose levels differ everywhere, along both sides."""
    y, x = np.mgrid[0:height, 0:width]
    scale = 2 ** (bits - 8)
    low, high = (0, 2**bits - 1) if is_full else (16 * scale, 235 * scale)
    luma = low + (high - low) * (0.15 + 0.7 * (x / width * 0.6 + y / height * 0.4))
    middle, swing = 128 * scale, 40 * scale
    planes = [luma, middle + swing * np.sin(x / width * 3), middle + swing * np.cos(y / height * 2)]
    return [np.round(plane).astype(np.int64) for plane in planes]


def with_chroma(planes: list[NDArray[np.int64]], chroma: int) -> list[NDArray[np.int64]]:
    across, down = {444: (1, 1), 422: (2, 1), 420: (2, 2)}[chroma]
    return [planes[0], *(plane[::down, ::across] for plane in planes[1:])]


def rgb(planes: list[NDArray[np.int64]], *, bits: int = 8, matrix: int = 6, is_full: bool = True) -> Pixels:
    return ycbcr_to_rgb(planes, bits=bits, matrix=matrix, is_full=is_full)


def load(data: Any, **options: Any) -> Pixels:
    pixels: Pixels = spdl.io.to_numpy(spdl.io.load_image(data, **options)).astype(np.float64)
    return pixels


def load_rgba(data: bytes, height: int, width: int) -> Pixels:
    transform = spdl.io.ImageTransform((height, width), color="rgba", interpolation="nearest")
    batch = spdl.io.load_image_batch([data], transform=transform)
    pixels: Pixels = spdl.io.to_numpy(batch)[0].astype(np.float64)
    return pixels


def load_slot(data: bytes, height: int, width: int, **options: Any) -> Pixels:
    batch = spdl.io.load_image_batch([data], width=width, height=height, **options)
    pixels: Pixels = spdl.io.to_numpy(batch)[0].astype(np.float64)
    return pixels


def check(data: bytes, expected: Pixels, *, close: float = CLOSE) -> None:
    """Alone, in a batch and with a transform, whether or not it is to be turned upright."""
    height, width = expected.shape[:2]
    transform = spdl.io.ImageTransform((height, width), interpolation="nearest")
    transformed = spdl.io.to_numpy(spdl.io.load_image_batch([data], transform=transform))[0]
    for pixels in (
        load(data),
        load(data, orient=True),
        load_slot(data, height, width),
        load_slot(data, height, width, orient=True),
        transformed,
    ):
        assert pixels.shape == expected.shape
        assert np.abs(pixels - expected).max() <= close


def coded(height: int = 48, width: int = 64, *, bits: int = 8, colours: bool = True) -> Coded:
    planes = ramps(height, width, bits=bits)
    return encode(planes if colours else planes[:1], bits=bits, signalled=(6, True))


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "limited"])
@pytest.mark.parametrize("matrix", [1, 6, 9])
@pytest.mark.parametrize("bits", [8, 10, 12])
def test_matrix_range_and_depth(bits: int, matrix: int, is_full: bool) -> None:
    """As the file's own colours say."""
    planes = ramps(48, 64, bits=bits, is_full=is_full)
    file = HeifFile()
    data = file.to_bytes(file.add(encode(planes, bits=bits), file.add_colours(matrix, is_full=is_full)))
    check(data, rgb(planes, bits=bits, matrix=matrix, is_full=is_full))


@pytest.mark.parametrize(("matrix", "is_full"), [(1, True), (1, False), (6, True)])
def test_colours_of_the_stream_count_where_the_file_says_none(matrix: int, is_full: bool) -> None:
    """And without either, it is BT.601 of limited range, the default of HEVC."""
    planes = ramps(48, 64, is_full=is_full)
    check(heif_of(encode(planes, signalled=(matrix, is_full))), rgb(planes, matrix=matrix, is_full=is_full))
    planes = ramps(48, 64, is_full=False)
    check(heif_of(encode(planes)), rgb(planes, is_full=False))


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("chroma", [420, 422])
def test_chroma_of_less_resolution(chroma: int, bits: int) -> None:
    """Where chroma changes slowly, it does not matter how it is enlarged."""
    planes = ramps(48, 64, bits=bits)
    data = heif_of(encode(with_chroma(planes, chroma), bits=bits, signalled=(6, True)))
    check(data, rgb(planes, bits=bits), close=CLOSE + 6)


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "limited"])
@pytest.mark.parametrize("bits", [8, 10, 12])
def test_gray(bits: int, is_full: bool) -> None:
    """One component, and the same levels in every form."""
    luma = ramps(48, 64, bits=bits, is_full=is_full)[0]
    low, high = (0, 2**bits - 1) if is_full else (16 << bits - 8, 235 << bits - 8)
    expected = np.repeat(((luma - low) / (high - low) * 255)[..., None], 3, -1)
    data = heif_of(encode([luma], bits=bits, signalled=(6, is_full)))
    check(data, expected)
    assert spdl.io.load_image(data, filter_desc=None).shape[-1 if bits == 8 else 0] == 1


ORDERS = [
    [*itertools.chain(turn, mirror)]
    for turn, mirror in itertools.product([[], [1], [2], [3]], [[], ["sideways"], ["up and down"]])
] + [["sideways", 1], ["up and down", 3], ["sideways", 2]]


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("steps", ORDERS, ids=str)
def test_turns_and_mirrors_are_applied_in_their_order(steps: list[Any], bits: int) -> None:
    """They are part of the picture; whether EXIF is to be followed does not matter."""
    file = HeifFile()
    expected = rgb(ramps(48, 64, bits=bits), bits=bits)
    properties = []
    for step in steps:
        match step:
            case int():
                properties.append(file.add_turns(step))
                expected = np.rot90(expected, step)
            case "sideways":
                properties.append(file.add_mirror(is_sideways=True))
                expected = expected[:, ::-1]
            case _:
                properties.append(file.add_mirror(is_sideways=False))
                expected = expected[::-1]
    check(file.to_bytes(file.add(coded(bits=bits), *properties)), expected)


@pytest.mark.parametrize("steps", [[], [1], ["mirror"], [3, "mirror"]], ids=str)
def test_crop_comes_first(steps: list[Any]) -> None:
    """A clean aperture, then turns and mirrors."""
    file = HeifFile()
    expected = rgb(ramps(48, 64))[7:40, 5:50]
    properties = [file.add_crop(64, 48, (7, 5, 33, 45))]
    for step in steps:
        properties.append(file.add_mirror(is_sideways=True) if step == "mirror" else file.add_turns(step))
        expected = expected[:, ::-1] if step == "mirror" else np.rot90(expected, step)
    check(file.to_bytes(file.add(coded(), *properties)), expected)


@pytest.mark.parametrize("value", range(1, 9))
def test_orientation_in_exif_does_not_turn_it_again(value: int) -> None:
    """It repeats what the properties say (ISO/IEC 23008-12, annex A)."""
    from tests.io.test_orientation_sources import exif, xmp

    file = HeifFile()
    number = file.add(coded(), file.add_turns(3))
    file.add_metadata(b"Exif", bytes(4) + exif(value)[6:], number)
    file.add_metadata(b"mime", xmp(value), number, b"application/rdf+xml\0")
    check(file.to_bytes(number), np.rot90(rgb(ramps(48, 64)), 3))


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (2, 1), (2, 3)])
def test_grid(rows: int, columns: int, bits: int) -> None:
    """Tiles are put together, and what lies beyond the picture is cut off."""
    tile_height, tile_width = 64, 64
    planes = ramps(rows * tile_height, columns * tile_width, bits=bits)
    height, width = rows * tile_height - 9, columns * tile_width - 13
    tiles = [
        encode([plane[y : y + tile_height, x : x + tile_width] for plane in planes], bits=bits, signalled=(6, True))
        for y in range(0, rows * tile_height, tile_height)
        for x in range(0, columns * tile_width, tile_width)
    ]
    file = HeifFile()
    grid = file.add_grid(tiles, rows, columns, width, height, file.add_turns(1))
    check(file.to_bytes(grid), np.rot90(rgb(planes, bits=bits)[:height, :width]))


@pytest.mark.parametrize("colours", [True, False])
@pytest.mark.parametrize(("bits", "alpha_bits"), [(8, 8), (10, 10), (8, 10), (12, 8)])
def test_alpha(bits: int, alpha_bits: int, colours: bool) -> None:
    """It is read where it is asked for, at any depth."""
    alpha = ramps(48, 64, bits=alpha_bits)[0]
    file = HeifFile()
    number = file.add(coded(bits=bits, colours=colours))
    file.add_alpha(encode([alpha], bits=alpha_bits, signalled=(6, True)), number)
    data = file.to_bytes(number)
    planes = ramps(48, 64, bits=bits)
    gray = np.repeat(planes[0][..., None] / (2**bits - 1) * 255, 3, -1)
    expected = rgb(planes, bits=bits) if colours else gray
    pixels = load_rgba(data, 48, 64)
    assert np.abs(pixels[..., 3] - alpha / (2**alpha_bits - 1) * 255).max() <= 1
    assert np.abs(pixels[..., :3] - expected).max() <= CLOSE
    check(data, expected)


def test_alpha_turns_with_the_picture() -> None:
    """It has the same properties."""
    alpha = ramps(48, 64)[0]
    file = HeifFile()
    turns = [file.add_turns(1), file.add_mirror(is_sideways=True)]
    number = file.add(coded(), *turns)
    file.add_alpha(encode([alpha], signalled=(6, True)), number, *turns)
    pixels = load_rgba(file.to_bytes(number), 64, 48)
    assert np.abs(pixels[..., 3] - np.rot90(alpha)[:, ::-1]).max() <= 1


def test_colours_that_were_multiplied_by_alpha_are_divided_by_it() -> None:
    """As in TIFF."""
    alpha = np.full((48, 64), 128)
    file = HeifFile()
    level = encode([np.full((48, 64), 60), *[np.full((48, 64), 128)] * 2], signalled=(6, True))
    number = file.add(level)
    file.add_alpha(encode([alpha], signalled=(6, True)), number, premultiplied=True)
    assert np.abs(load(file.to_bytes(number)) - 60 * 255 / 128).max() <= CLOSE


def test_primary_picture_of_several_is_loaded() -> None:
    """Not the first, nor a thumbnail."""
    file = HeifFile()
    small = file.add(coded(32, 32))
    number = file.add(coded())
    file.add(coded(32, 48))
    file.references.append((b"thmb", small, [number]))
    check(file.to_bytes(number), rgb(ramps(48, 64)))
    assert load(file.to_bytes(3)).shape == (32, 48, 3)


@pytest.mark.parametrize(("brand", "others"), [(b"mif1", b"mif1heic"), (b"heix", b"mif1heix"), (b"mif2", b"heic")])
def test_brands(brand: bytes, others: bytes) -> None:
    """The main brand may be that of any codec."""
    file = HeifFile()
    data = file.to_bytes(file.add(coded()), brand=brand, others=others)
    assert np.abs(load(data) - rgb(ramps(48, 64))).max() <= CLOSE


def test_size_is_checked_before_memory_is_taken() -> None:
    """Of the picture, of a grid, and of what the stream holds."""
    with pytest.raises(spdl.io.ImageTooLargeError, match="64x48"):
        spdl.io.load_image(heif_of(coded()), max_pixels=64 * 48 - 1)
    file = HeifFile()
    grid = file.add_grid([coded(64, 64)] * 4, 2, 2, 128, 128)
    with pytest.raises(spdl.io.ImageTooLargeError, match="128x128"):
        spdl.io.load_image(file.to_bytes(grid), max_pixels=128 * 128 - 1)
    assert spdl.io.load_image(file.to_bytes(grid), max_pixels=128 * 128).shape == (128, 128, 3)


def test_filters_see_the_picture() -> None:
    """A crop is one of what is shown; without a filter, planes have the file's depth."""
    data = heif_of(coded(bits=10))
    expected = rgb(ramps(48, 64, bits=10), bits=10)
    assert (
        np.abs(load(data, filter_desc="crop=w=20:h=10:x=3:y=7,format=pix_fmts=rgb24") - expected[7:17, 3:23]).max()
        <= CLOSE
    )
    planes = spdl.io.to_numpy(spdl.io.load_image(data, filter_desc=None))
    assert planes.dtype == np.uint16
    assert planes.max() > 255


@pytest.mark.parametrize(
    "options", [{"demux_config": spdl.io.demux_config()}, {"decode_config": spdl.io.decode_config()}]
)
def test_configurations_are_refused_by_name(options: dict[str, Any], tmp_path: Any) -> None:
    """They are FFmpeg's, and libheif has neither a demuxer nor a decoder of that kind."""
    data = heif_of(coded())
    path = tmp_path / "a.heic"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(spdl.io.DecodeError, match=r"HEIF.*leave out demux_config and decode_config"):
            spdl.io.load_image(source, **options)


@pytest.mark.parametrize("load", [spdl.io.demux_image, spdl.io.load_video], ids=["demux_image", "load_video"])
def test_where_packets_are_asked_for_the_error_names_the_function_that_reads_it(load: Callable[[Any], object]) -> None:
    """FFmpeg has no HEIF before version 7, and tiles alone are no picture."""
    with pytest.raises(spdl.io.MediaError, match=r"HEIF.*load_image"):
        load(heif_of(coded()))


def test_a_sequence_without_a_primary_picture_gives_its_first(tmp_path: Any) -> None:
    """It is a movie, and has tracks instead of items."""
    import subprocess

    path = tmp_path / "sequence.heic"
    source = "testsrc2=size=64x48:rate=5:duration=1,format=yuv420p"
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx265", "-preset", "ultrafast"]
    command += ["-x265-params", "log-level=none", "-tag:v", "hvc1", "-brand", "hevc", "-f", "mp4", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    assert path.read_bytes()[8:12] == b"hevc"
    first = spdl.io.to_numpy(spdl.io.load_video(path))[0].astype(np.float64)
    assert np.abs(load(path.read_bytes()) - first).max() <= 1
    assert np.abs(load(path) - first).max() <= 1


def test_other_codecs_are_refused_by_name() -> None:
    """A picture that libheif does not decode."""
    file = HeifFile()
    size = file.add_property(b"ispe", bytes(4) + (64).to_bytes(4, "big") + (48).to_bytes(4, "big"))
    number = file.add_item(b"vvc9", b"data", [size])
    with pytest.raises(spdl.io.DecodeError, match=r"HEIF that libheif .* does not decode|libheif: "):
        spdl.io.load_image(file.to_bytes(number))


def test_every_truncation_is_a_typed_error() -> None:
    """Wherever the file ends."""
    data = heif_of(coded())
    for end in [*range(8, 700, 13), len(data) - 1]:
        with pytest.raises(spdl.io.MediaError):
            spdl.io.load_image(data[:end])


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_a_typed_error_or_a_picture(seed: int) -> None:
    """Anywhere in the file, of each kind."""
    import random

    rng = random.Random(seed)
    file = HeifFile()
    number = file.add(coded(), file.add_turns(1), file.add_crop(64, 48, (4, 4, 32, 40)))
    file.add_alpha(encode([ramps(48, 64)[0]], signalled=(6, True)), number)
    grid = HeifFile()
    kinds = [
        heif_of(coded(bits=10)),
        file.to_bytes(number),
        grid.to_bytes(grid.add_grid([coded(64, 64)] * 2, 1, 2, 100, 60, grid.add_mirror(is_sideways=True))),
    ]
    for _ in range(12):
        data = mutate(kinds[rng.randrange(3)], rng)
        try:
            spdl.io.load_image(data, max_pixels=MAX_PIXELS)
        except (spdl.io.MediaError, MemoryError):
            continue


def test_threads_load_the_same() -> None:
    """At the same time, alone and in batches."""
    data = heif_of(coded())
    expected = load(data)
    results: list[bool] = []

    def work() -> None:
        for _ in range(5):
            results.append(bool((load(data) == expected).all()))
            batch = spdl.io.load_image_batch([data] * 4, width=64, height=48, num_threads=2)
            results.append(len(spdl.io.to_numpy(batch)) == 4)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results)
    assert len(results) == 40


def test_a_file_is_read_as_its_bytes_are(tmp_path: Any) -> None:
    """Whatever its name."""
    path = tmp_path / "picture.jpg"
    path.write_bytes(heif_of(coded()))
    assert (load(path) == load(path.read_bytes())).all()
    assert os.path.getsize(path) > 0
