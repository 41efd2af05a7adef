"""The law of pictures on screen, for files as they are made and for changed ones."""

from tests.differential.cells import Draw, law

from . import files
from .forms import FORMS, SLOW_TWINS, TWINS, forms_of
from .on_screen import Film, check, expect_order, judge

_VARYING = forms_of(lambda _, form: form.has_times and form.suffix in ("mp4", "mov", "mkv", "webm", "nut", "ts"))
_LATE = forms_of(lambda _, form: form.has_times and form.suffix in ("mp4", "mov", "mkv", "webm", "ts", "flv"))
_COPIED = forms_of(lambda _, form: bool(form.copies))


@law("video", "as made", FORMS, costly=SLOW_TWINS)
def as_made(draw: Draw, form: str) -> None:
    """A file as the encoder and the container's writer leave it: every picture, in the order of their numbers."""
    film = Film.decode(files.make_film(draw, FORMS[form]))
    expect_order(film)
    judge(film)
    check(draw, film)


@law("video", "varying rate", _VARYING, costly=TWINS)
def varying_rate(draw: Draw, form: str) -> None:
    """A gap shows the picture before it."""
    film = Film.decode(files.with_gaps(draw, FORMS[form]))
    expect_order(film)
    judge(film)
    check(draw, film)


@law("video", "offset", _LATE, costly=TWINS)
def offset(draw: Draw, form: str) -> None:
    """Times are those of the container, which need not begin at 0."""
    film = Film.decode(files.late(draw, FORMS[form]))
    expect_order(film)
    judge(film)
    check(draw, film)


@law("video", "remuxed", _COPIED, costly=TWINS)
def remuxed(draw: Draw, form: str) -> None:
    """Packets copied to another container."""
    film = Film.decode(files.copied(draw, FORMS[form]))
    judge(film)
    check(draw, film)
