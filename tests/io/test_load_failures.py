"""Images that cannot be loaded: each costs itself, and says what is wrong with it."""

import io
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spdl.io
from tests.io.pictures import draw, make_jpeg, write_jpeg

GOOD = make_jpeg(40, 30)


def failure_of(source: Any, **options: Any) -> Exception:
    """Why a source fails between two that do not."""
    buffer: spdl.io.CPUBuffer = spdl.io.load_image_batch(
        [GOOD, source, GOOD], width=16, height=16, strict=False, **options
    )
    (failure,) = buffer.failures
    assert failure.index == 1
    assert failure.source is source
    assert buffer.shape == (2, 16, 16, 3)
    return failure.error


def test_missing_file(tmp_path: Path) -> None:
    """It is the package's error and the builtin one, and names the path."""
    path = tmp_path / "none.jpg"
    error = failure_of(path)
    assert isinstance(error, spdl.io.SourceNotFoundError)
    assert isinstance(error, FileNotFoundError)
    assert str(error) == f"Failed to open the input: {path}: No such file or directory"
    assert error.source == error.filename == str(path)


def test_folder(tmp_path: Path) -> None:
    """A folder is named as what it is."""
    error = failure_of(tmp_path)
    assert type(error) is spdl.io.OpenError
    assert "folder" in str(error)


def test_file_below_a_file(tmp_path: Path) -> None:
    """A path through a file does not exist."""
    assert isinstance(failure_of(write_jpeg(tmp_path / "a.jpg") / "b.jpg"), spdl.io.SourceNotFoundError)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_file_without_permission(tmp_path: Path) -> None:
    """The system's reason is in the message."""
    path = write_jpeg(tmp_path / "secret.jpg")
    path.chmod(0)
    assert "Permission denied" in str(failure_of(path))


@pytest.mark.parametrize("source", [b"", bytearray(), memoryview(b"")])
def test_empty_data(source: Any) -> None:
    """No bytes are no picture."""
    error = failure_of(source)
    assert type(error) is spdl.io.OpenError
    assert "it is empty" in str(error)


def test_empty_file(tmp_path: Path) -> None:
    """Nor is an empty file."""
    path = tmp_path / "empty.jpg"
    path.touch()
    assert str(failure_of(path)) == f"Failed to open the input: {path}: it is empty"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"%PDF-1.7 " + bytes(100), "it looks like PDF"),
        (b"<!DOCTYPE html><html></html>", "it looks like HTML"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it looks like a Git LFS pointer"),
        (b"hello, world" * 10, "it is of no format that is known here"),
        (bytes(1000), "it is of no format that is known here"),
    ],
    ids=["pdf", "html", "git-lfs", "text", "zeros"],
)
def test_what_is_no_picture_is_named(data: bytes, shown: str) -> None:
    """The message says what the data looks like, and does not guess."""
    error = failure_of(data)
    assert type(error) is spdl.io.OpenError
    assert shown in str(error)


def test_sound_has_no_picture() -> None:
    """It opens, and there is nothing to see."""
    import wave

    stream = io.BytesIO()
    with wave.open(stream, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(800))
    error = failure_of(stream.getvalue())
    assert type(error) is spdl.io.StreamNotFoundError
    assert "No image stream was found in it" in str(error)


def test_data_in_memory_is_named_by_its_address() -> None:
    """So that two of them can be told apart in a log."""
    error = failure_of(b"hello")
    assert isinstance(error, spdl.io.MediaError)
    assert str(error.source).startswith("Bytes: 0x")
    assert str(error.source) in str(error)


@pytest.mark.parametrize("progressive", [False, True], ids=["baseline", "progressive"])
@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.95])
def test_truncated_data(part: float, progressive: bool) -> None:
    """A picture with rows missing is not a picture."""
    data = make_jpeg(160, 120, progressive=progressive)
    error = failure_of(data[: int(len(data) * part)])
    assert type(error) is spdl.io.DecodeError
    assert str(error).startswith("cannot decode Bytes: 0x")
    assert error.action == "decode"


def test_missing_end_marker_costs_nothing() -> None:
    """All rows are there; that is what counts."""
    assert spdl.io.load_image_batch([GOOD[:-2]], width=16, height=16).failures == ()


def test_bytes_after_the_end_cost_nothing() -> None:
    """Cameras and servers append things."""
    assert spdl.io.load_image_batch([GOOD + b"trailer" * 100], width=16, height=16).failures == ()


def test_damaged_data() -> None:
    """libjpeg would go on with invented pixels; its warning is an error here."""
    data = bytearray(make_jpeg(160, 120))
    middle = len(data) // 2
    data[middle : middle + 2] = b"\xff\xd8"
    assert isinstance(failure_of(bytes(data)), spdl.io.DecodeError)


def test_header_alone() -> None:
    """A start marker followed by nothing is damage, not another format."""
    assert isinstance(failure_of(b"\xff\xd8\xff\xe0"), spdl.io.DecodeError)


def with_size(data: bytes, width: int, height: int) -> bytes:
    """The same JPEG with another size in its frame header."""
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


def test_picture_of_too_many_pixels() -> None:
    """The limit counts before memory is taken, and the message names it."""
    error = failure_of(with_size(GOOD, 30_000, 30_000))
    assert type(error) is spdl.io.ImageTooLargeError
    assert "30000x30000 pixels, more than the 178956970" in str(error)


def test_picture_without_extent() -> None:
    """A height of zero, which JPEG allows for a later marker, has no pixels to give."""
    assert isinstance(failure_of(with_size(GOOD, 40, 0)), spdl.io.DecodeError)


def test_picture_of_too_many_scans() -> None:
    """A small file may not keep the decoder busy by repeating itself."""
    data = (Path(__file__).parent.parent / "golden" / "separate_scans.jpg").read_bytes()
    last = data.rindex(b"\xff\xda")
    error = failure_of(data[:last] + data[last:-2] * 600 + data[-2:])
    assert type(error) is spdl.io.DecodeError
    assert "more than 500 scans" in str(error)


def test_twelve_bit_samples() -> None:
    """What this libjpeg-turbo does not decode is an error of type, not a wrong picture; nor is it for FFmpeg."""
    at = GOOD.index(b"\xff\xc0") + 4
    for process in (b"\xff\xc0", b"\xff\xc1"):
        deep = (GOOD[:at] + b"\x0c" + GOOD[at + 1 :]).replace(b"\xff\xc0", process, 1)
        assert "12 bits" in str(failure_of(deep))
        for options in ({}, {"filter_desc": None}, {"decode_config": spdl.io.decode_config()}):
            with pytest.raises(spdl.io.DecodeError, match=r"12 bits|more than 8 bits"):
                spdl.io.load_image(deep, **options)


def test_lossless_process() -> None:
    """Nor is one of JPEG's other processes."""
    assert isinstance(failure_of(GOOD.replace(b"\xff\xc0", b"\xff\xc3", 1)), spdl.io.DecodeError)


def test_tables_of_one_picture_are_not_used_for_the_next() -> None:
    """An abbreviated stream without tables does not borrow those of the picture before it."""
    start = GOOD.index(b"\xff\xdb")
    end = GOOD.index(b"\xff\xc0")
    assert isinstance(failure_of(GOOD[:start] + GOOD[end:]), spdl.io.DecodeError)


def test_strict_batch_raises_with_all_failures(tmp_path: Path) -> None:
    """All sources are tried, and the error tells about each that failed."""
    sources: list[Any] = [tmp_path / "a.jpg", GOOD, b"junk", GOOD[:200], tmp_path / "b.jpg", b""]
    with pytest.raises(spdl.io.BatchLoadError, match=r"Failed to load some images\.") as caught:
        spdl.io.load_image_batch(sources, width=16, height=16)
    assert isinstance(caught.value, RuntimeError)
    assert [failure.index for failure in caught.value.failures] == [0, 2, 3, 4, 5]
    assert "(5 of 6)" in str(caught.value)
    assert str(caught.value.failures[0].error) in str(caught.value)


def test_tolerant_batch_closes_the_gaps_in_order() -> None:
    """The images that load keep their order, and are what they would be alone."""
    good = [make_jpeg(40, 30, seed=seed) for seed in range(4)]
    sources = [b"junk", good[0], good[1], b"", good[2], b"more junk", good[3]]
    buffer = spdl.io.load_image_batch(sources, width=16, height=16, strict=False)
    alone = spdl.io.load_image_batch(good, width=16, height=16)
    assert (spdl.io.to_numpy(buffer) == spdl.io.to_numpy(alone)).all()
    assert [(failure.index, failure.source) for failure in buffer.failures] == [
        (0, b"junk"),
        (3, b""),
        (5, b"more junk"),
    ]


def test_tolerant_batch_with_nothing_left_raises() -> None:
    """There is no empty batch."""
    with pytest.raises(spdl.io.BatchLoadError) as caught:
        spdl.io.load_image_batch([b"junk", b""], width=16, height=16, strict=False)
    assert len(caught.value.failures) == 2


def test_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Each with its position and its cause."""
    with caplog.at_level(logging.ERROR, logger="spdl.io"):
        spdl.io.load_image_batch([GOOD, b"junk"], width=16, height=16, strict=False)
    (record,) = caplog.records
    assert "Image 1 of a batch of 2: Failed to open the input" in record.getMessage()


def test_path_that_is_not_text_is_shown_escaped(tmp_path: Path) -> None:
    """A name that no encoding gives can still be reported."""
    error = failure_of(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jpg"))
    assert "\\udcff.jpg" in str(error)


def test_batch_error_survives_pickling() -> None:
    """With its failures, also those of sources in memory that is not ours."""
    with pytest.raises(spdl.io.BatchLoadError) as caught:
        spdl.io.load_image_batch([memoryview(b"junk"), "none.jpg"], width=16, height=16)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert [failure.source for failure in copy.failures] == [b"junk", "none.jpg"]
    assert isinstance(copy.failures[1].error, spdl.io.SourceNotFoundError)


def encoded(name: str, **options: Any) -> bytes:
    """A picture in one of Pillow's formats."""
    stream = io.BytesIO()
    draw(40, 30).save(stream, name, **options)
    return stream.getvalue()


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("PNG", {}),
    ("GIF", {}),
    ("BMP", {}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("AVIF", {}),
    ("PPM", {}),
    ("JPEG2000", {}),
]


@pytest.mark.parametrize(("name", "options"), OTHERS, ids=str)
def test_truncation_of_other_formats_never_loads_a_part(name: str, options: dict[str, Any]) -> None:
    """Cut anywhere: an error, or every pixel."""
    data = encoded(name, **options)
    cuts = [data[:n] for n in {*range(0, len(data), len(data) // 40), *range(len(data) - 20, len(data))}]
    buffer = spdl.io.load_image_batch([data, *cuts], width=40, height=30, strict=False)
    assert all(isinstance(failure.error, spdl.io.MediaError) for failure in buffer.failures)
    assert len(buffer.failures) > 20
    batch = spdl.io.to_numpy(buffer)
    assert (batch == batch[0]).all()


def patched(name: str, at: int, new: bytes) -> bytes:
    """A picture in one of Pillow's formats with other bytes from some place on."""
    data = encoded(name)
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    "data",
    [
        patched("PNG", 16, (30_000).to_bytes(4, "big") * 2),
        patched("GIF", 6, (30_000).to_bytes(2, "little") * 2),
        patched("BMP", 18, (30_000).to_bytes(4, "little") * 2),
        b"qoif" + (30_000).to_bytes(4, "big") * 2 + bytes([3, 0]) + bytes(7) + b"\1",
    ],
    ids=["PNG", "GIF", "BMP", "QOI"],
)
def test_other_formats_of_too_many_pixels(data: bytes) -> None:
    """The limit of JPEG is that of all."""
    error = failure_of(data)
    assert type(error) is spdl.io.ImageTooLargeError
    assert "30000x30000 pixels, more than the 178956970" in str(error)


def test_jpeg_2000_in_cmyk_is_refused() -> None:
    """FFmpeg would take black for transparency."""
    stream = io.BytesIO()
    draw(40, 30, mode="CMYK").save(stream, "JPEG2000")
    assert "JPEG 2000 in CMYK" in str(failure_of(stream.getvalue()))


def test_missing_url_is_not_found(tmp_path: Path) -> None:
    """As a missing file is."""
    assert isinstance(failure_of(f"file:{tmp_path}/none.png"), spdl.io.SourceNotFoundError)


def test_unknown_scheme_cannot_be_opened() -> None:
    """A name with a colon that is no file is taken for a URL."""
    assert isinstance(failure_of("nonsense:picture.png"), spdl.io.OpenError)


WITHOUT_FFMPEG = """
import sys; sys.modules["spdl.io.lib._media"] = None
import io, spdl.io
from PIL import Image
def data(name): stream = io.BytesIO(); Image.new("L", (8, 8)).save(stream, name); return stream.getvalue()
buffer = spdl.io.load_image_batch([data("JPEG"), data("PNG"), "http:x"], width=8, height=8, strict=False)
print(buffer.shape, [type(failure.error).__name__ for failure in buffer.failures])
print(buffer.failures[0].error)
"""


def test_without_ffmpeg_jpeg_loads_and_the_rest_says_why() -> None:
    """What FFmpeg is missing for is named, image by image."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_FFMPEG], capture_output=True, text=True, check=True)
    shape, message = done.stdout.splitlines()
    assert shape == "(1, 8, 8, 3) ['NativeLibraryError', 'NativeLibraryError']"
    assert "it looks like PNG, which needs FFmpeg: cannot load the part of spdl.io that needs FFmpeg" in message


def test_jpeg_alone_never_loads_ffmpeg() -> None:
    """Its libraries cost time and memory."""
    code = WITHOUT_FFMPEG.split("buffer")[0].replace('sys.modules["spdl.io.lib._media"] = None', "pass") + (
        "spdl.io.load_image_batch([data('JPEG'), b'', 'none.jpg'], width=8, height=8, strict=False)\n"
        "print('spdl.io.lib._media' in sys.modules)\n"
        "spdl.io.load_image_batch([data('JPEG'), data('PNG')], width=8, height=8)\n"
        "print('spdl.io.lib._media' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("beyond", [1, 32, 64, 65])
def test_a_file_larger_than_a_picture_may_be_is_refused_before_it_is_read(beyond: int, tmp_path: Path) -> None:
    """Whatever room an earlier file left: just above the limit, reading on wrote behind it."""
    jpeg = make_jpeg(48, 36)
    (tmp_path / "small.jpg").write_bytes(jpeg)
    with (tmp_path / "large.jpg").open("wb") as file:
        file.write(jpeg)
        file.truncate(2**30 + beyond)
    sources = [tmp_path / "small.jpg", tmp_path / "large.jpg", tmp_path / "small.jpg"]
    buffer = spdl.io.load_image_batch(sources, width=8, height=8, strict=False)
    assert buffer.origins == (0, 2)
    assert "larger than the 1073741824 bytes" in str(buffer.failures[0].error)


def test_a_jpeg_of_an_unsupported_kind_says_which() -> None:
    """FFmpeg's own code for it reads "Operation not permitted"."""
    data = make_jpeg(48, 36).replace(b"\xff\xc0", b"\xff\xcb", 1)  # lossless, arithmetic (ITU-T T.81, table B.1)
    for config in (None, spdl.io.demux_config("mjpeg")):
        with pytest.raises(spdl.io.MediaError) as caught:
            spdl.io.load_image(data, demux_config=config, name="item")
        assert "permitted" not in str(caught.value)
        assert "item" in str(caught.value)
