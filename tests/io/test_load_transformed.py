"""Batches of transformed pictures: what they hold, what they tell, and what is drawn for whom."""

import io
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import (
    CenterCrop,
    Crop,
    ImageTransform,
    LongerSide,
    RandomCrop,
    RandomResizedCrop,
    ShorterSide,
    load_image_batch,
    sample_seeds,
)
from tests.io.pictures import draw, make_jpeg
from tests.io.transformed import JPEG, JUNK, PLAIN, RANDOM, flat, load, shades

# ------------------------------------------------------------------------------------------------------- the result


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("color", ["rgb", "gray", "rgba"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_batch_is_one_contiguous_array(dtype: Any, color: Any, layout: Any) -> None:
    """Of the transform's type, and of its shape for each image."""
    transform = ImageTransform((12, 16), dtype=dtype, color=color, layout=layout)
    batch = load([JPEG, flat(80)], transform)
    assert batch.shape == (2, *transform.shape)
    assert batch.dtype == dtype
    assert batch.flags.c_contiguous
    assert batch.flags.writeable


def test_levels_are_normalised() -> None:
    """By mean and standard deviation of each channel; without them to 0..1."""
    transform = ImageTransform(4, dtype="float32", mean=(0.1, 0.2, 0.3), std=(1, 2, 4))
    expected = (51 / 255 - np.array([0.1, 0.2, 0.3])) / [1, 2, 4]
    assert np.abs(load([flat(51)], transform) - expected).max() < 1e-6
    assert load([flat(255), flat(0)], ImageTransform(4, dtype="float32")).tolist() == [
        [[[1.0] * 3] * 4] * 4,
        [[[0.0] * 3] * 4] * 4,
    ]


def test_bfloat16_is_float32_cut_short() -> None:
    """Rounded to nearest, in the upper half of the bits."""
    options: dict[str, Any] = {"mean": 0.3, "std": 0.3}
    full = load([JPEG], ImageTransform(16, dtype="float32", **options))
    halves = np.empty(full.size * 2, np.uint8)
    load_image_batch([JPEG], transform=ImageTransform(16, dtype="bfloat16", **options), out=halves)
    wide = (halves.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(full.shape)
    assert (np.abs(wide - full) <= np.abs(full) * 2.0**-8).all()


def test_every_kind_of_source_gives_the_same_pixels(tmp_path: Path) -> None:
    """Paths and buffers, of any iterable."""
    path = tmp_path / "a.jpg"
    path.write_bytes(JPEG)
    batch = load(iter([str(path), path, JPEG, bytearray(JPEG), memoryview(JPEG), np.frombuffer(JPEG, np.uint8)]))
    assert len(batch) == 6
    assert (batch == batch[0]).all()


def test_formats_may_be_mixed() -> None:
    """In order, whoever decodes them."""
    pictures = [flat(10, "JPEG"), flat(60, "PNG"), flat(110, "WEBP"), flat(160, "BMP"), flat(210, "JPEG")]
    assert shades(load_image_batch(pictures, transform=PLAIN)) == pytest.approx([10, 60, 110, 160, 210], abs=2)


def test_images_are_flipped_as_told() -> None:
    """Always, or never."""
    batch = load([JPEG])
    assert (load([JPEG], ImageTransform((12, 16), flip=1))[:, :, ::-1] == batch).all()
    assert (load([JPEG], ImageTransform((12, 16), vertical_flip=1))[:, ::-1] == batch).all()


def test_fill_is_around_what_fits() -> None:
    """One level for each channel, normalised as the rest."""
    transform = ImageTransform((8, 8), resize=LongerSide(), fill=(255, 0, 51), dtype="float32")
    batch = load([flat(128, size=(16, 8))], transform)
    assert batch[0, 0, 0].tolist() == pytest.approx([1, 0, 0.2])
    assert batch[0, 4, 4].tolist() == pytest.approx([128 / 255] * 3, abs=0.01)


def test_result_tells_that_all_went_well() -> None:
    """No failures; each image from its own source."""
    buffer = load_image_batch([JPEG, flat(9), JPEG], transform=PLAIN)
    assert buffer.failures == ()
    assert buffer.origins == (0, 1, 2)
    assert [applied and applied.source_size for applied in buffer.applied] == [(48, 64), (15, 20), (48, 64)]


# ---------------------------------------------------------------------------------------------------- seeds and replay


@pytest.mark.parametrize(
    "transform",
    [
        RANDOM,
        ImageTransform(16, crop=RandomCrop()),
        ImageTransform(16, resize=ShorterSide(20), crop=RandomCrop(), flip=0.5),
        ImageTransform(16, resize=ShorterSide(20), crop=CenterCrop(), vertical_flip=0.5),
        ImageTransform(16, crop=Crop(1, 2, 30, 40), resize=LongerSide("top_left"), flip=0.3),
    ],
    ids=repr,
)
def test_applied_is_what_plan_says(transform: ImageTransform) -> None:
    """Size and seed decide, and nothing else does."""
    seeds = sample_seeds(3, 1, range(6))
    buffer = load_image_batch([JPEG] * 6, transform=transform, seeds=seeds)
    assert buffer.applied == tuple(transform.plan(48, 64, seed) for seed in seeds)
    assert all(isinstance(applied, spdl.io.AppliedTransform) for applied in buffer.applied)


def test_picture_does_not_depend_on_its_company() -> None:
    """Order, batch size and number of threads leave the bytes as they are."""
    pictures = [make_jpeg(64, 48, seed=k) if k % 3 else flat(k * 20) for k in range(9)]
    seeds = sample_seeds(0, 0, range(9))
    batch = load(pictures, RANDOM, seeds=seeds)
    for num_threads in (1, 2, 5):
        assert (load(pictures, RANDOM, seeds=seeds, num_threads=num_threads) == batch).all()
    assert (load(pictures[::-1], RANDOM, seeds=seeds[::-1])[::-1] == batch).all()
    assert (load(pictures[4:5], RANDOM, seeds=np.array(seeds[4:5], np.uint64)) == batch[4:5]).all()


def test_transform_may_be_used_by_several_threads_at_once() -> None:
    """It is one object of native code for all of them."""
    seeds = sample_seeds(0, 0, range(4))
    expected = load([JPEG] * 4, RANDOM, seeds=seeds)
    with ThreadPoolExecutor(4) as pool:
        for batch in pool.map(lambda _: load([JPEG] * 4, RANDOM, seeds=seeds, num_threads=2), range(16)):
            assert (batch == expected).all()


def test_replay_does_the_same_with_another_picture() -> None:
    """A mask goes where its picture went, by another filter and in another type."""
    seeds = sample_seeds(0, 0, range(4))
    pictures = load_image_batch([JPEG] * 4, transform=RANDOM, seeds=seeds)
    stream = io.BytesIO()
    draw(64, 48, seed=7, mode="L").save(stream, "PNG")
    of_masks = ImageTransform((12, 16), color="gray", interpolation="nearest", crop=RandomResizedCrop(), flip=0.5)
    masks = load_image_batch(
        [stream.getvalue()] * 4, transform=of_masks, replay=pickle.loads(pickle.dumps(pictures.applied))
    )
    assert masks.applied == pictures.applied
    # Without chance in the transform as well, and with the picture itself the same bytes come out.
    again = load([JPEG] * 4, ImageTransform((12, 16)), replay=list(pictures.applied))
    assert (again == spdl.io.to_numpy(pictures)).all()


def test_replay_of_a_picture_of_another_size_fails() -> None:
    """That image, and no other."""
    applied = load_image_batch([JPEG] * 3, transform=PLAIN).applied
    buffer = load_image_batch([JPEG, flat(5), JPEG], transform=PLAIN, replay=applied, strict=False)
    assert buffer.origins == (0, 2)
    (failure,) = buffer.failures
    assert failure.index == 1
    assert isinstance(failure.error, spdl.io.DecodeError)


def test_random_transform_needs_seeds() -> None:
    """Chance is never taken from somewhere else."""
    with pytest.raises(
        ValueError, match=r"seeds must be given for a random transform, one per source.*sample_seeds makes them"
    ):
        load([JPEG], RANDOM)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": [1]}, "seeds must have one seed per source: 2, got 1"),
        ({"seeds": [1, -1]}, r"seeds must be >= 0 and < 2\*\*64, got -1"),
        ({"seeds": [1, 2**64]}, r"seeds must be >= 0 and < 2\*\*64, got 18446744073709551616"),
        ({"replay": [PLAIN]}, "replay must have one item per source: 2, got 1"),
        ({"seeds": [1, 2], "replay": []}, "seeds and replay exclude each other"),
        ({"num_threads": -1}, "num_threads must be >= 0, got -1"),
        ({"missing": "skip"}, "missing must be one of 'drop', 'zero', got 'skip'"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    """Before anything is loaded."""
    with pytest.raises(ValueError, match=message):
        load([JPEG, JPEG], **options)


def test_replay_for_another_size_is_refused() -> None:
    """The sizes of the results must agree."""
    applied = load_image_batch([JPEG], transform=ImageTransform(8)).applied
    with pytest.raises(
        ValueError, match=r"replay\[0\] must have the size of the transform, \(12, 16\), got size=\(8, 8\)"
    ):
        load([JPEG], replay=applied)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transform": 224}, "transform must be an ImageTransform, got int"),
        ({"seeds": 5}, "seeds must be integers, one per source"),
        ({"seeds": [0.5, 1]}, "seeds must be integers, one per source"),
        ({"replay": [None, None]}, r"replay\[0\] must be an AppliedTransform, got NoneType: leave out"),
        ({"replay": [PLAIN, PLAIN]}, r"replay\[0\] must be an AppliedTransform, got ImageTransform"),
        ({"num_threads": 1.0}, "num_threads must be an int, got 1.0"),
        ({"missing": None}, "missing must be one of"),
        ({"spares": 5}, "spares must be a list of sources, got an object of type int"),
        ({"spares": "spare.jpg"}, "spares must be a list of sources, got one of type str"),
    ],
)
def test_values_of_the_wrong_type_are_refused(options: dict[str, Any], message: str) -> None:
    """Likewise."""
    with pytest.raises(TypeError, match=message):
        load_image_batch([JPEG, JPEG], **{"transform": PLAIN, **options})


# --------------------------------------------------------------------------------------------------------- two forms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "is missing width and height: give width and height in pixels, or a transform"),
        ({"width": 8}, "is missing height"),
        ({"height": 8}, "is missing width"),
        ({"width": 8, "height": 8, "seeds": [1]}, "got 'seeds', which requires transform"),
        ({"width": 8, "height": 8, "out": None}, "got 'out', which requires transform"),
        ({"width": 8, "height": 8, "size": 8}, "got an unexpected argument 'size'; did you mean width"),
        ({"transform": PLAIN, "width": 8}, "got 'width', which cannot be combined with transform"),
        ({"transform": PLAIN, "pix_fmt": "rgb24"}, "got 'pix_fmt', which cannot be combined with transform"),
        ({"transform": PLAIN, "orient": True}, "got 'orient', which cannot be combined with transform"),
        ({"transform": PLAIN, "seed": 1}, "got an unexpected argument 'seed'; did you mean width"),
    ],
)
def test_arguments_of_the_two_forms_do_not_mix(options: dict[str, Any], message: str) -> None:
    """The message says which one, and why."""
    with pytest.raises(TypeError, match=message):
        load_image_batch([JPEG], **options)


@pytest.mark.parametrize("srcs", ["a.jpg", b"data", Path("a.jpg")])
def test_one_source_is_not_a_list_of_sources(srcs: Any) -> None:
    """As in the other form."""
    with pytest.raises(TypeError, match="srcs must be a list of sources"):
        load(srcs)


def test_empty_list_is_a_value_error() -> None:
    """There is no batch of nothing."""
    with pytest.raises(ValueError, match="at least one source"):
        load([])


def test_source_of_the_wrong_type_is_a_type_error() -> None:
    """It is a mistake, and not a picture that fails."""
    with pytest.raises(TypeError, match="a source must be"):
        load([JPEG, 5])
    with pytest.raises(TypeError, match="a source must be"):
        load([JUNK, JPEG], spares=[5], strict=False)


# --------------------------------------------------------------------------------------------------------- processes


def test_exit_with_transforms_leaks_nothing() -> None:
    """Those that are kept for the next batch are gone when the extension counts what is left."""
    code = (
        "import io, spdl.io\n"
        "from PIL import Image\n"
        "stream = io.BytesIO(); Image.new('L', (8, 8)).save(stream, 'JPEG')\n"
        "transform = spdl.io.ImageTransform(4, crop=spdl.io.RandomCrop(), dtype='float32')\n"
        "buffer = spdl.io.load_image_batch([stream.getvalue()], transform=transform, seeds=[1])\n"
        "applied, array = buffer.applied, spdl.io.to_numpy(buffer)\n"
        "print(transform.plan(8, 8, 1) == applied[0])"
    )
    environ = {**os.environ, "SPDL_REPORT_LEAKS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout == "True\n"
    assert "nanobind" not in done.stderr


def test_jpeg_alone_needs_no_ffmpeg() -> None:
    """It is loaded with the first picture of another format; without it such pictures fail, with the reason."""
    code = (
        "import io, sys, spdl.io\n"
        "from PIL import Image\n"
        "jpeg = io.BytesIO(); Image.new('L', (8, 8)).save(jpeg, 'JPEG')\n"
        "png = io.BytesIO(); Image.new('L', (8, 8)).save(png, 'PNG')\n"
        "transform = spdl.io.ImageTransform(4)\n"
        "spdl.io.load_image_batch([jpeg.getvalue()], transform=transform)\n"
        "print('spdl.io.lib._media' in sys.modules)\n"
        "sys.modules['spdl.io.lib._media'] = None\n"
        "buffer = spdl.io.load_image_batch([jpeg.getvalue(), png.getvalue()], transform=transform, strict=False)\n"
        "print(buffer.origins, buffer.failures[0].error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, failed = done.stdout.splitlines()
    assert loaded == "False"
    assert failed.startswith("(0,) ")
    assert "needs FFmpeg" in failed
