"""What a batch tells about its images beside their pixels: ``origins`` and ``applied``."""

import gc
import weakref
from typing import Any

import pytest

import spdl.io
from spdl.io import _native
from tests.io.pictures import make_jpeg


def load() -> Any:
    """A batch of one."""
    return spdl.io.load_image_batch([make_jpeg(40, 30)], width=16, height=12)


@pytest.mark.parametrize("name", ["failures", "origins", "applied"])
def test_there_is_nothing_to_tell_by_default(name: str) -> None:
    """An empty tuple, which nobody can replace."""
    buffer = spdl.io.convert_array([1, 2])
    assert getattr(buffer, name) == ()
    with pytest.raises(AttributeError):
        setattr(buffer, name, (1,))


def test_batch_of_a_size_tells_where_pictures_were_put() -> None:
    """It is a transform as well, but where FFmpeg's filters make it."""
    sources: list[Any] = [b"junk", make_jpeg(40, 30)]
    buffer = spdl.io.load_image_batch(sources, width=20, height=20, strict=False)
    assert buffer.origins == (1,)
    assert [applied and (applied.offset, applied.resized) for applied in buffer.applied] == [((2, 0), (15, 20))]
    description = spdl.io.get_video_filter_desc(scale_width=20, scale_height=20)
    filtered = spdl.io.load_image_batch(sources, width=20, height=20, filter_desc=description, strict=False)
    assert (filtered.origins, filtered.applied) == ((1,), ())


def test_origins_are_what_was_set() -> None:
    """The same tuple, as it was given."""
    buffer = load()
    origins = (3, None)
    _native.core.set_origins(buffer, origins)
    assert buffer.origins is origins


def test_applied_is_made_once() -> None:
    """Later accesses give the same tuple."""
    buffer = load()
    assert buffer.applied is buffer.applied


def test_origins_that_refer_back_to_the_batch_are_collected() -> None:
    """The collector sees through the batch."""
    buffer = load()
    held: list[Any] = [buffer]
    _native.core.set_origins(buffer, (held,))  # type: ignore[arg-type]
    alive = weakref.ref(buffer)
    del buffer, held
    gc.collect()
    assert alive() is None
