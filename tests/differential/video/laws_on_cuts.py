"""The law of pictures on screen, for files that were cut or joined."""

import re
from importlib.util import find_spec
from pathlib import Path

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, NotMadeError, law
from tests.differential.judges.ffmpeg_tool import NEWEST, SYSTEM, shown_by_ffmpeg

from . import files
from .forms import FORMS, TWINS, codec_of, forms_of
from .on_screen import Film, TimesError, check, expect_same, judge

#: What the ffmpeg tool 5.1 does after a cut: a number of a known exception.
_BY_CODEC = {"vp9": 2, "av1": 3, "hevc": 4}
_CODECS = "vp8", "vp9", "h264", "hevc", "av1", "mpeg4", "mpeg2", "ffv1", "theora", "flv1", "wmv2", "msmpeg4"
_CUT = forms_of(lambda name, form: form.has_times and codec_of(name) in _CODECS)
_TRANSPORT = forms_of(lambda _, form: form.suffix == "ts")
_JOINED = forms_of(lambda _, form: form.has_times and form.suffix in ("mp4", "mov", "mkv", "webm", "ts"))
_COSTLY = [*TWINS, "mkv/ffv1", "nut/h264", "flv/flv1", "mxf/mpeg2", "mov/h264", "mkv/mpeg2", "ogv/theora", "webm/av1"]


def _judge_cut(film: Film, codec: str) -> None:
    shown = shown_by_ffmpeg(film.path)
    if [each.number for each in shown] != [each.number for each in film.shown] and codec in _BY_CODEC:
        if shown:
            expect_same(film.shown, shown[-len(film.shown) :], "the end of what the ffmpeg tool shows")
        judge(film, names=["the newest ffmpeg tool"])
        raise KnownExceptionError(_BY_CODEC[codec])
    judge(film, names=["the ffmpeg tool", "the newest ffmpeg tool"])
    try:
        judge(film, names=["PyAV"])
    except ValueError as reason:  # av.error.InvalidDataError is one
        raise KnownExceptionError(1) from reason


def _check_cut(draw: Draw, path: Path, codec: str) -> None:
    try:
        film = Film.decode(path)
    except spdl.io.MediaError as error:
        assert re.search("no pictures|no packets|it is empty", str(error)), error  # noqa: PT017
        tool = NEWEST if codec in _BY_CODEC else SYSTEM
        assert (tool == NEWEST and find_spec(NEWEST) is None) or not shown_by_ffmpeg(path, tool)
        return
    if film.last * film.tick > 1e6:
        raise NotMadeError("the ffmpeg tool wrote a picture thousands of hours late")
    check(draw, film)
    _judge_cut(film, codec)


@law("video", "cut", _CUT, costly=_COSTLY)
def cut(draw: Draw, form: str) -> None:
    """Without the first packets: what comes before the first key frame is neither shown nor damage."""
    path = files.cut(draw, files.make_film(draw, FORMS[form]), "cut")
    _check_cut(draw, path, codec_of(form))


@law("video", "cut at a byte", _TRANSPORT, costly=TWINS)
def cut_at_byte(draw: Draw, form: str) -> None:
    """A transport stream from any packet of it on, as a receiver joins a broadcast."""
    path = files.cut_at_byte(draw, files.make_film(draw, FORMS[form]))
    _check_cut(draw, path, codec_of(form))


def _numbers_alone(path: Path) -> list[int]:
    """What the ffmpeg tool shows of a file from its first key frame on, also what its edit list leaves out."""
    options = ["-ignore_editlist", "1"] if path.suffix in (".mp4", ".mov") else []
    return [each.number for each in shown_by_ffmpeg(path, NEWEST if find_spec(NEWEST) else SYSTEM, options)]


@law("video", "joined copies", _JOINED, costly=_COSTLY)
def joined(draw: Draw, form: str) -> None:
    """Two films by the ffmpeg tool, whose times may overlap, so that the tool changes them."""
    path, first, second = files.joined(draw, FORMS[form])
    film = Film.decode(path)
    check(draw, film)
    try:
        judge(film, names=["the ffmpeg tool"], has_times=False)
    except AssertionError:
        numbers = [each.number for each in film.shown]
        if codec_of(form) == "hevc" and numbers == _numbers_alone(first) + _numbers_alone(second):
            raise KnownExceptionError(6) from None
        raise
    judge(film, names=["PyAV"])
    try:
        judge(film, names=["the ffmpeg tool", "the newest ffmpeg tool"])
    except TimesError:
        raise KnownExceptionError(5) from None


@law("video", "joined bytes", _TRANSPORT, costly=TWINS)
def joined_bytes(draw: Draw, form: str) -> None:
    """One transport stream behind the other, so that time begins again."""
    path = files.joined_bytes(draw, FORMS[form])
    film = Film.decode(path)
    judge(film)
