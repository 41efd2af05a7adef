"""Batches of images: what comes out, in which order, and what the arguments mean."""

import array
import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io._images import _outcomes
from tests.io.pictures import difference, draw, make_jpeg, write_jpeg


def load(*sources: Any, **options: Any) -> Any:
    """A batch of 32x24 as an array."""
    return spdl.io.to_numpy(spdl.io.load_image_batch(sources, **{"width": 32, "height": 24, **options}))


@pytest.mark.parametrize(("pix_fmt", "channels"), [("rgb24", 3), ("bgr24", 3), ("gray", 1)])
def test_batch_is_one_contiguous_array(pix_fmt: str, channels: int) -> None:
    """The shape is images, height, width, channels, of ``uint8`` in C order."""
    batch = load(make_jpeg(64, 48), make_jpeg(48, 64), pix_fmt=pix_fmt)
    assert batch.shape == (2, 24, 32, channels)
    assert batch.dtype == np.uint8
    assert batch.flags.c_contiguous
    assert batch.flags.writeable


def test_every_kind_of_source_gives_the_same_pixels(tmp_path: Path) -> None:
    """Paths as text and objects, and all buffers, are sources; they may be mixed."""
    path = write_jpeg(tmp_path / "picture.jpg")
    data = path.read_bytes()
    numbers = np.frombuffer(data, np.uint8)
    batch = load(
        str(path),
        path,
        data,
        bytearray(data),
        memoryview(data),
        numbers,
        array.array("B", data),
        np.concatenate([numbers, numbers])[: len(data)],
    )
    assert len(batch) == 8
    assert (batch == batch[0]).all()


def test_sources_may_be_any_iterable() -> None:
    """A generator will do."""
    assert len(spdl.io.to_numpy(spdl.io.load_image_batch((make_jpeg(8, 8) for _ in range(3)), width=8, height=8))) == 3


def test_order_is_that_of_the_sources() -> None:
    """Image i of the batch is source i."""
    shades = [0, 60, 120, 180, 240]
    sources = [make_jpeg_of(shade) for shade in shades]
    assert [int(image.mean()) for image in load(*sources, width=8, height=8)] == pytest.approx(shades, abs=2)


def make_jpeg_of(shade: int) -> bytes:
    """A JPEG of one gray."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 16), (shade, shade, shade)).save(stream, "JPEG")
    return stream.getvalue()


def test_bgr_is_rgb_reversed() -> None:
    """``bgr24`` has the same values in the other order."""
    data = make_jpeg(64, 48)
    assert (load(data, pix_fmt="bgr24")[..., ::-1] == load(data)).all()


def test_gray_is_the_luma_of_the_picture() -> None:
    """``gray`` is what BT.601 gives for the colours."""
    data = make_jpeg(64, 48)
    luma = load(data).astype(float) @ [0.299, 0.587, 0.114]
    assert difference(load(data, pix_fmt="gray")[..., 0], luma.round().astype(np.uint8)).mean() < 1


def test_borders_are_black_even_in_used_storage() -> None:
    """What the picture leaves free is zero, whatever the storage held."""
    storage = np.full((1, 24, 32, 3), 200, np.uint8)
    batch = load(make_jpeg_of(255), storage=storage)
    assert (batch[0, :, :4] == 0).all()
    assert (batch[0, :, 28:] == 0).all()
    assert (batch[0, :, 4:28] > 250).all()


def test_storage_is_where_the_batch_is() -> None:
    """The result is a view of the storage, which may be larger."""
    storage = np.zeros(10_000, np.uint8)
    batch = load(make_jpeg(64, 48), storage=storage)
    assert np.shares_memory(batch, storage)
    assert (storage[: batch.size] == batch.ravel()).all()
    assert not storage[batch.size :].any()


@pytest.mark.parametrize("make", [bytearray, lambda n: memoryview(bytearray(n)), lambda n: np.zeros((n,), np.int8)])
def test_any_writable_buffer_is_storage(make: Any) -> None:
    """bytearrays, memoryviews and arrays of any type will do."""
    data = make_jpeg(64, 48)
    assert (load(data, storage=make(32 * 24 * 3)) == load(data)).all()


def test_storage_cannot_be_resized_while_the_batch_lives() -> None:
    """The batch holds the storage, and lets go of it at its end."""
    storage = bytearray(32 * 24 * 3)
    buffer = spdl.io.load_image_batch([make_jpeg(64, 48)], width=32, height=24, storage=storage)
    with pytest.raises(BufferError):
        storage.append(0)
    del buffer
    storage.append(0)


def test_storage_too_small_is_an_error_with_both_sizes() -> None:
    """The message says how much is needed and how much there is."""
    with pytest.raises(spdl.io.ConvertError, match="2304 bytes and the storage has 2303"):
        load(make_jpeg(64, 48), storage=bytearray(2303))


@pytest.mark.parametrize(
    "storage",
    [b"\0" * 10_000, np.zeros((100, 100), np.uint8)[:, ::2], 5, "text"],
    ids=["read-only", "strided", "number", "text"],
)
def test_storage_of_the_wrong_kind_is_a_type_error(storage: Any) -> None:
    """Storage has to be writable and contiguous."""
    with pytest.raises(TypeError, match="storage must be"):
        load(make_jpeg(64, 48), storage=storage)


@pytest.mark.parametrize("source", [5, None, ["a.jpg"], object()])
def test_source_of_the_wrong_type_is_a_type_error(source: Any) -> None:
    """What is neither path nor buffer is refused before anything is loaded."""
    with pytest.raises(TypeError, match="a source must be"):
        load(make_jpeg(64, 48), source)


@pytest.mark.parametrize("source", ["a.jpg", b"data", Path("a.jpg")])
def test_one_source_is_not_a_list_of_sources(source: Any) -> None:
    """Text is not taken for a list of one-letter paths."""
    with pytest.raises(TypeError, match=r"srcs must be a list of sources"):
        spdl.io.load_image_batch(source, width=8, height=8)


@pytest.mark.parametrize(
    "source",
    [np.zeros((4, 4), np.uint8), np.zeros(16, np.float32), np.zeros(32, np.uint8)[::2]],
    ids=["two-dimensional", "float", "strided"],
)
def test_array_of_the_wrong_form_is_a_type_error(source: Any) -> None:
    """An array has to be one-dimensional, contiguous and of bytes; the message says which source."""
    with pytest.raises(TypeError, match="source 1 must be"):
        load(make_jpeg(64, 48), source)


@pytest.mark.parametrize("options", [{"width": 0}, {"height": 0}, {"width": -1}])
def test_sizes_are_positive(options: dict[str, int]) -> None:
    """A size below one is refused."""
    with pytest.raises(ValueError, match="must be >= 1"):
        load(make_jpeg(64, 48), **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": "8"}, "width must be an int, got '8'"),
        ({"height": True}, "height must be an int, got True"),
        ({"height": 8.0}, "height must be an int, got 8.0"),
        ({"pix_fmt": ["rgb24"]}, "pix_fmt must be the name of a pixel format or None, got \\['rgb24'\\]"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(options: dict[str, Any], said: str) -> None:
    """With what it was, also where another argument sends the call to FFmpeg."""
    for more in ({}, {"filter_desc": None}):
        with pytest.raises(TypeError, match=said):
            spdl.io.load_image_batch(["a.jpg"], **{"width": 8, "height": 8, **options, **more})


def test_empty_list_is_a_value_error() -> None:
    """There is no batch of nothing."""
    with pytest.raises(ValueError, match="at least one source"):
        load()


def test_batch_larger_than_the_address_space_is_an_error() -> None:
    """Sizes are checked before they are multiplied."""
    with pytest.raises(spdl.io.ConvertError, match="larger than the address space"):
        load(*[make_jpeg(8, 8)] * 4, width=2**31 - 1, height=2**31 - 1)


def test_path_with_a_null_character_is_a_value_error() -> None:
    """As it is for ``open``."""
    with pytest.raises(ValueError, match="null character"):
        load("a\0b.jpg")


@pytest.mark.parametrize("pix_fmt", ["yuv410p", "nonsense"])
def test_pixel_format_without_an_array_layout_is_refused(pix_fmt: str) -> None:
    """Before anything is loaded; the error is of its own type and also a ``ValueError``."""
    with pytest.raises(spdl.io.UnsupportedFormatError, match=pix_fmt) as caught:
        load(make_jpeg(64, 48), pix_fmt=pix_fmt)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["demux_config", "decode_config", "filter_desc"])
def test_arguments_of_the_wrong_type_are_refused(name: str) -> None:
    """They are not quietly ignored."""
    with pytest.raises(TypeError, match=name):
        load(make_jpeg(64, 48), **{name: 5})


def test_a_device_that_is_not_there_is_told() -> None:
    """Before anything is loaded."""
    with pytest.raises(spdl.io.DeviceError, match="cuda:99, as device_config says"):
        load(b"", device_config=spdl.io.cuda_config(99))
    with pytest.raises(TypeError, match="device_config must be made by cuda_config"):
        load(make_jpeg(64, 48), device_config=object())


def test_batch_that_loads_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Silence is success."""
    with caplog.at_level(logging.DEBUG, logger="spdl.io"):
        load(make_jpeg(64, 48))
    assert caplog.records == []


# ------------------------------------------------------------------------------------------ through FFmpeg's filters


def by_filters(*sources: Any, **options: Any) -> Any:
    """The standard filters, asked for in words, so that no short cut is taken."""
    size = {"width": 32, "height": 24, **options}
    description = spdl.io.get_video_filter_desc(
        scale_width=size["width"], scale_height=size["height"], pix_fmt=options.get("pix_fmt", "rgb24")
    )
    return load(*sources, **{**size, "filter_desc": description})


@pytest.mark.parametrize("size", [(32, 24), (24, 32), (224, 224), (33, 17)], ids=str)
@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP"])
def test_filters_place_pictures_as_the_short_way_does(name: str, size: tuple[int, int]) -> None:
    """The same borders, and pixels within the tolerance that the reference states."""
    stream = io.BytesIO()
    draw(201, 150).point(lambda level: 40 + level * 4 // 5).save(stream, name)
    short = load(stream.getvalue(), width=size[0], height=size[1])
    general = by_filters(stream.getvalue(), width=size[0], height=size[1])
    assert (short.any(axis=-1) == general.any(axis=-1)).all()
    assert difference(short, general).mean() < 3.0


@pytest.mark.parametrize(
    "config", [{"demux_config": spdl.io.demux_config()}, {"decode_config": spdl.io.decode_config()}]
)
def test_configurations_leave_the_standard_filters(config: dict[str, Any]) -> None:
    """A configuration alone changes nothing of size, placement and format."""
    data = make_jpeg(64, 48)
    assert difference(load(data, **config), by_filters(data)).max() <= 1


@pytest.mark.parametrize(
    ("pix_fmt", "shape"),
    [("rgba", (24, 32, 4)), ("yuv444p", (3, 24, 32)), ("yuv420p", (1, 36, 32)), ("nv12", (1, 36, 32))],
)
def test_other_pixel_formats_go_through_filters(pix_fmt: str, shape: tuple[int, ...]) -> None:
    """Every layout of ``convert_frames``, with the batch in front."""
    assert load(make_jpeg(64, 48), make_jpeg(48, 64), pix_fmt=pix_fmt).shape == (2, *shape)


def test_filter_of_the_users_own() -> None:
    """Its size counts, not that of the arguments."""
    batch = load(make_jpeg(64, 48), make_jpeg(48, 64), filter_desc="scale=w=20:h=10,format=pix_fmts=gray")
    assert batch.shape == (2, 10, 20, 1)


def test_no_filter_is_not_the_default_filter() -> None:
    """``filter_desc=None`` leaves pictures as they were decoded."""
    assert load(make_jpeg(64, 48, subsampling="4:4:4"), filter_desc=None).shape == (1, 3, 48, 64)


def test_sizes_may_be_left_to_the_pictures() -> None:
    """Without width and height pictures keep theirs, which must agree."""
    data = make_jpeg(64, 48)
    assert load(data, data, width=None, height=None).shape == (2, 48, 64, 3)
    with pytest.raises(spdl.io.ConvertError, match=r"must agree.*\(48, 64, 3\).*\(64, 48, 3\)"):
        load(data, make_jpeg(48, 64), width=None, height=None)


def test_filters_fill_storage_and_report_failures() -> None:
    """As the short way does."""
    storage = bytearray(2 * 24 * 32 * 3)
    buffer = spdl.io.load_image_batch(
        [make_jpeg(64, 48), b"junk", make_jpeg(48, 64), Path("none.jpg")],
        width=32, height=24, filter_desc="scale=w=32:h=24,format=pix_fmts=rgb24", storage=storage, strict=False,
    )  # fmt: skip
    batch = spdl.io.to_numpy(buffer)
    assert batch.shape == (2, 24, 32, 3)
    assert np.shares_memory(batch, np.frombuffer(storage, np.uint8))
    assert [(failure.index, type(failure.error)) for failure in buffer.failures] == [
        (1, spdl.io.OpenError),
        (3, spdl.io.SourceNotFoundError),
    ]


def test_filter_that_is_wrong_fails_for_every_image() -> None:
    """With FFmpeg's words."""
    with pytest.raises(spdl.io.BatchLoadError, match="nonsense") as caught:
        load(make_jpeg(64, 48), make_jpeg(64, 48), filter_desc="nonsense=1")
    assert [type(failure.error) for failure in caught.value.failures] == [spdl.io.FilterError] * 2


def outcome_of(srcs: list[Any], caplog: pytest.LogCaptureFixture, **options: Any) -> Any:
    """All that a caller can see of a batch or of its error."""
    caplog.clear()
    _outcomes._SEEN.clear()  # the first failure of a kind is logged in another way
    try:
        batch = spdl.io.load_image_batch(srcs, width=24, height=16, **options)
    except spdl.io.BatchLoadError as error:
        return str(error), [failure.index for failure in error.failures], caplog.messages
    failures = [(failure.index, failure.source, str(failure.error), failure.name) for failure in batch.failures]
    pixels = spdl.io.to_numpy(batch).tobytes()
    return batch.shape, pixels, batch.origins, batch.applied, failures, caplog.messages


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("last", ["photo.jpg", "fl\xe4che.jpg", "flat.png", "missing.jpg", "bad.jpg"])
def test_usual_call_gives_what_others_give(
    last: str, strict: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A list of paths without further options goes a shorter way than the same with names, which are ``None`` here."""
    for name in ("photo.jpg", "fl\xe4che.jpg", "flat.png"):
        draw(40, 30).save(tmp_path / name)
    (tmp_path / "bad.jpg").write_bytes(b"bad")
    sources = [str(tmp_path / "photo.jpg"), make_jpeg(32, 48), str(tmp_path / last)]
    usual = outcome_of(sources, caplog, strict=strict)
    assert usual == outcome_of(sources, caplog, strict=strict, names=[None] * 3)
    assert usual == outcome_of([tmp_path / "photo.jpg", *sources[1:]], caplog, strict=strict)


def test_list_may_change_while_it_is_loaded() -> None:
    """The batch is of the sources at the call."""
    first, second = make_jpeg(32, 48), b"junk"

    class Sources(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sources.clear()

    sources = [first, second]
    handler = Sources()
    logger = logging.getLogger("spdl.io")
    logger.addHandler(handler)
    try:
        batch = spdl.io.load_image_batch(sources, width=24, height=16, strict=False)
    finally:
        logger.removeHandler(handler)
    assert batch.shape == (1, 16, 24, 3)
    assert [failure.source for failure in batch.failures] == [second]


@pytest.mark.parametrize("name", ["max_pixels", "num_threads"])
def test_number_that_was_taken_before_is_checked_again(name: str) -> None:
    """``True`` equals 1, and is no number of threads."""
    source = make_jpeg(32, 48)

    def load(**options: Any) -> Any:
        return spdl.io.load_image_batch([source], width=8, height=8, **options)

    load(**{name: 32 * 48})
    load(num_threads=1)
    with pytest.raises(TypeError, match=name):
        load(**{name: True})
    with pytest.raises(TypeError, match=name):
        load(**{name: [1]})
