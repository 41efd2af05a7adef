"""Files of a form: as the encoder leaves them, and changed by copying packets."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from tests.differential.cells import Draw

from .films import encode, run_ffmpeg
from .forms import Form


def make_film(
    draw: Draw,
    form: Form,
    name: str = "made",
    *,
    count: int | None = None,
    rate: str | None = None,
    more: Sequence[str] = (),
) -> Path:
    """``more``: options of the container beside those of the form."""
    rate = rate or draw.random.choice(["25", "30", "24000/1001", "60", "12"])
    path = draw.folder / f"{name}.{form.suffix}"
    options = [*form.options(draw.random), *form.container, *more]
    encode(draw, path, rate, count or draw.random.randint(20, 70), options, passes=form.passes)
    return path


def with_gaps(draw: Draw, form: Form) -> Path:
    """Pictures that were left out, at varying rate."""
    path = draw.folder / f"made.{form.suffix}"
    every = draw.random.choice([2, 3, 5])
    chosen = f"select='not(mod(n,{every}))+not(mod(n,7))'"
    options = ["-vf", chosen, "-fps_mode", "vfr", *form.options(draw.random), *form.container]
    encode(draw, path, draw.random.choice(["25", "30"]), draw.random.randint(40, 120), options)
    return path


def late(draw: Draw, form: Form) -> Path:
    """The first picture at a time of its own."""
    path = draw.folder / f"made.{form.suffix}"
    offset = draw.random.choice(["0.7", "2.345", "1/3"])
    seconds = f"{float(Fraction(offset)):.6f}"
    options = [*form.options(draw.random), *form.container, "-output_ts_offset", seconds]
    encode(draw, path, draw.random.choice(["25", "30"]), draw.random.randint(20, 60), options, passes=form.passes)
    return path


def cut(draw: Draw, source: Path, name: str) -> Path:
    """Packets from the middle, without the key frame that they need or with it."""
    path = source.with_name(f"{name}{source.suffix}")
    start = f"{draw.random.uniform(0.1, 0.9):.3f}"
    if draw.random.random() < 0.5 or source.suffix in (".h264", ".hevc", ".m4v", ".m2v"):
        number = draw.random.randint(1, 9)
        # 5.1 has no bit stream filter that only leaves out packets.
        noise = f"noise=drop=lt(n\\,{number}):amount=0"
        run_ffmpeg(draw, ["-i", source.name, "-c", "copy", "-copyts", "-bsf:v", noise, path.name])
    else:
        run_ffmpeg(draw, ["-ss", start, "-i", source.name, "-c", "copy", path.name])
    return path


def cut_at_byte(draw: Draw, source: Path) -> Path:
    """From the middle of a packet of the transport on."""
    data = source.read_bytes()
    start = draw.random.randrange(len(data) * 3 // 4)
    draw.note(f"from byte {start} on")
    path = source.with_name("cut.ts")
    path.write_bytes(data[start:])
    return path


def joined_bytes(draw: Draw, form: Form) -> Path:
    """One file behind the other."""
    parts = [make_film(draw, form, name, count=draw.random.randint(20, 40)) for name in ("first", "second")]
    path = draw.folder / f"joined.{form.suffix}"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def cut_at_key(draw: Draw, source: Path, form: Form, name: str) -> Path:
    """From a key frame on."""
    path = source.with_name(f"{name}{source.suffix}")
    start = f"{draw.random.uniform(0.1, 0.9):.3f}"
    run_ffmpeg(draw, ["-ss", start, "-i", source.name, "-c", "copy", *form.container, path.name])
    return path


def joined(draw: Draw, form: Form) -> list[Path]:
    """The file, and the two that it was joined from: the second is the first again, or a part of it."""
    first = make_film(draw, form, "first", count=draw.random.randint(20, 40))
    second = first if draw.random.random() < 0.4 else cut_at_key(draw, first, form, "second")
    path = draw.folder / f"joined.{form.suffix}"
    (draw.folder / "list.txt").write_text(f"file '{first.name}'\nfile '{second.name}'\n")
    run_ffmpeg(draw, ["-f", "concat", "-safe", "0", "-i", "list.txt", "-c", "copy", *form.container, path.name])
    return [path, first, second]


def copied(draw: Draw, form: Form) -> Path:
    """The same packets in another container."""
    source = make_film(draw, form)
    path = draw.folder / f"copied.{draw.random.choice(form.copies)}"
    run_ffmpeg(draw, ["-i", source.name, "-c", "copy", path.name])
    return path
