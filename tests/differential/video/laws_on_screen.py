"""The law of pictures on screen, for files as they are made and for changed ones."""

from collections.abc import Callable

import pytest

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, law
from tests.differential.judges.ffmpeg_tool import shown_by_ffmpeg

from . import files
from .forms import FORMS, Form
from .on_screen import Film, check, expect_order, judge


def _of(names: Callable[[str, Form], bool]) -> list[str]:
    return [name for name, form in FORMS.items() if names(name, form)]


_VARYING = _of(lambda _, form: form.has_times and form.suffix in ("mp4", "mov", "mkv", "webm", "nut", "ts"))
_LATE = _of(lambda _, form: form.has_times and form.suffix in ("mp4", "mov", "mkv", "webm", "ts", "flv"))
_COPIED = _of(lambda _, form: bool(form.copies))
#: Not yet: H.264 and HEVC (streams that recover bit by bit), VP9, and edit lists.
_CUT_CODECS = "vp8", "ffv1", "theora", "flv1", "wmv2", "msmpeg4"
_CUT = _of(lambda name, form: name.split("/")[-1] in _CUT_CODECS)
#: Encoders that take most of the time of all cells; of each, one form is tried as it is made.
_SLOW = ("vp8", "vp9", "av1", "hevc")
_SLOW_FORMS = _of(lambda name, _: name.split("/")[-1] in _SLOW)
_SLOW_TWINS = [name for name in _SLOW_FORMS if name not in ("webm/vp8", "webm/vp9", "mp4/av1", "ts/hevc")]
#: Cells of other codecs in containers that other cells try.
_TWINS = [
    *_SLOW_FORMS,
    "mov/prores",
    "3gp/mpeg4",
    "3gp/h264",
    "nut/mpeg4",
    "mkv/theora",
    "mp4/mpeg2",
    "fragmented mp4/h264",
]


@law("video", "as made", FORMS, costly=_SLOW_TWINS)
def as_made(draw: Draw, form: str) -> None:
    """A file as the encoder and the container's writer leave it: every picture, in the order of their numbers."""
    film = Film.decode(files.make_film(draw, FORMS[form]))
    expect_order(film)
    judge(film)
    check(draw, film)


@law("video", "varying rate", _VARYING, costly=_TWINS)
def varying_rate(draw: Draw, form: str) -> None:
    """A gap shows the picture before it."""
    film = Film.decode(files.with_gaps(draw, FORMS[form]))
    expect_order(film)
    judge(film)
    check(draw, film)


@law("video", "offset", _LATE, costly=_TWINS)
def offset(draw: Draw, form: str) -> None:
    """Times are those of the container, which need not begin at 0."""
    film = Film.decode(files.late(draw, FORMS[form]))
    expect_order(film)
    judge(film)
    check(draw, film)


@law("video", "remuxed", _COPIED, costly=_TWINS)
def remuxed(draw: Draw, form: str) -> None:
    """Packets copied to another container."""
    film = Film.decode(files.copied(draw, FORMS[form]))
    judge(film)
    check(draw, film)


@law("video", "cut", _CUT, costly=_SLOW_TWINS)
def cut(draw: Draw, form: str) -> None:
    """Without the first packets: what comes before the first key frame is neither shown nor damage."""
    path = files.cut(draw, files.make_film(draw, FORMS[form]), "cut")
    if not shown_by_ffmpeg(path):
        with pytest.raises(spdl.io.MediaError, match=r"no pictures|no packets"):
            Film.decode(path)
        return
    film = Film.decode(path)
    judge(film, names=["the ffmpeg tool"])
    check(draw, film)
    try:
        judge(film, names=["PyAV"])
    except ValueError as reason:  # av.error.InvalidDataError is one
        raise KnownExceptionError(1) from reason
