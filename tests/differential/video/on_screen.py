"""A frame at time t is the picture on screen at t: the last one with time <= t in the order of presentation."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest

import spdl.io
from tests.differential.cells import Draw
from tests.differential.judges.ffmpeg_tool import NEWEST, shown_by_ffmpeg
from tests.differential.judges.pyav import shown_by_pyav

from .films import SHAPE, Shown

#: Levels: versions of libswscale round the range of gray differently.
_CLOSE = 4
_GRAY = f"scale=w={SHAPE[1]}:h={SHAPE[0]}:flags=bicubic,format=pix_fmts=gray"
#: Pictures may have the times of their packets, or begin at 0: an independent reader has no say.
_COUNTED = ("avi", "h264", "hevc", "m4v", "m2v", "mpg", "vob")


@dataclass(frozen=True, slots=True)
class Film:
    """All pictures that SPDL decodes, in their order, and the unit of their times."""

    path: Path
    shown: list[Shown]
    tick: Fraction

    @classmethod
    def decode(cls, path: Path) -> "Film":
        frames = spdl.io.decode_packets(spdl.io.demux_video(path), _GRAY)
        times, tick = frames.get_pts(), Fraction(*frames.time_base)
        pictures = spdl.io.to_numpy(spdl.io.convert_frames(frames)).reshape(-1, *SHAPE)
        return cls(path, [Shown(pts, picture) for pts, picture in zip(times, pictures, strict=True)], tick)

    @property
    def first(self) -> int:
        return min(each.pts for each in self.shown)

    @property
    def last(self) -> int:
        return max(each.pts for each in self.shown)

    def tick_of(self, time: Fraction) -> int:
        return math.floor(time / self.tick + Fraction(1, 2))

    def on_screen(self, tick: int) -> Shown:
        """The picture that is on screen, by the definition."""
        return [each for each in self.shown if each.pts <= tick][-1]


def expect_same(found: Sequence[Shown], expected: Sequence[Shown], what: str) -> None:
    assert [each.number for each in found] == [each.number for each in expected], what
    for mine, theirs in zip(found, expected, strict=True):
        difference = np.abs(mine.picture.astype(int) - theirs.picture).max()
        assert difference <= _CLOSE, f"{what}: picture {theirs.number} differs by {difference}"


def _images(images: Sequence["spdl.io.ImageFrames"], tick: Fraction) -> list[Shown]:
    return [
        Shown(round(image.pts / tick), spdl.io.to_numpy(spdl.io.convert_frames(image)).reshape(SHAPE))
        for image in images
    ]


def _as_query(random: Random, time: Fraction, tick: Fraction) -> Any:
    """The same time as one of the types that users have, as far as it is exact enough."""
    kind = random.choice([Fraction, float, str, np.float32])
    if kind is np.float32:
        short = np.float32(float(time))
        from_middle = abs(time / tick % 1 - Fraction(1, 2)) * tick
        is_exact = abs(Fraction(float(short)) - time) < from_middle or Fraction(str(short)) == time
        return short if is_exact else float(time)
    return str(time) if kind is str else kind(time)


def _check_times(draw: Draw, film: Film, packets: "spdl.io.VideoPackets") -> None:
    """Random times; each picture's time, and one tick before and after it."""
    random = draw.random
    ticks = [random.randint(film.first, film.last) for _ in range(4)]
    for each in random.sample(film.shown, min(3, len(film.shown))):
        ticks += [each.pts - 1, each.pts, each.pts + 1]
    ticks = [tick for tick in ticks if film.first <= tick <= film.last]
    # Anywhere within half a tick.
    times = [(tick + Fraction(random.randint(-5, 4), 10)) * film.tick for tick in ticks]
    queries = [(_as_query(random, time, film.tick), film.tick_of(time)) for time in times]
    inside = [(query, tick) for query, tick in queries if film.first <= tick <= film.last]
    draw.note(f"times {[query for query, _ in inside]}")
    images = spdl.io.sample_decode_video(packets.clone(), times=[query for query, _ in inside], filter_desc=_GRAY)
    expect_same(_images(images, film.tick), [film.on_screen(tick) for _, tick in inside], "times")
    for tick in (film.first - 1, film.last + round(100 / film.tick)):
        with pytest.raises(
            ValueError, match=r"no frame of the packets is displayed at .* seconds; they have frames from"
        ):
            spdl.io.sample_decode_video(packets.clone(), times=[tick * film.tick])


def _check_indices(draw: Draw, film: Film, packets: "spdl.io.VideoPackets") -> None:
    """From either end, slices, and those that do not exist."""
    count = len(film.shown)
    indices = [draw.random.randint(-count, count - 1) for _ in range(4)]
    chosen = slice(draw.random.randint(-count, count), None, draw.random.choice([7, -5]))
    draw.note(f"indices {indices} {chosen}")
    images = spdl.io.sample_decode_video(packets.clone(), indices, filter_desc=_GRAY)
    expect_same(_images(images, film.tick), [film.shown[index] for index in indices], "indices")
    if film.shown[chosen]:
        images = spdl.io.sample_decode_video(packets.clone(), chosen, filter_desc=_GRAY)
        expect_same(_images(images, film.tick), film.shown[chosen], "a slice")
    for index in (count, -count - 1):
        with pytest.raises(IndexError, match=rf"{count} pictures come out of the {len(packets)} packets"):
            spdl.io.sample_decode_video(packets.clone(), [index])


def _check_windows(draw: Draw, film: Film) -> None:
    """The pictures from the first bound up to the second, and windows side by side hold each picture once."""
    edges = sorted(draw.random.randint(film.first, film.last + 1) for _ in range(2))
    edges = [film.first, *edges, film.last + 1]
    draw.note(f"windows {edges} of {film.tick} s")
    for start, end in pairwise(edges):
        if start == end:
            continue
        window = (start * film.tick, float(end * film.tick))
        frames = spdl.io.decode_packets(spdl.io.demux_video(film.path, timestamp=window), _GRAY)
        expected = [each for each in film.shown if start <= each.pts < end]
        assert frames.get_pts() == [each.pts for each in expected], f"window {window}"
        if expected:
            pictures = spdl.io.to_numpy(spdl.io.convert_frames(frames)).reshape(-1, *SHAPE)
            found = [Shown(each.pts, picture) for each, picture in zip(expected, pictures, strict=True)]
            expect_same(found, expected, f"window {window}")


def _check_clip(draw: Draw, film: Film) -> None:
    """Every n-th picture from the one on screen."""
    for outside in (film.first - 1, film.last + round(100 / film.tick)):
        with pytest.raises(spdl.io.BatchLoadError, match=r"no picture is displayed at .* seconds; it has"):
            spdl.io.load_video_clips([film.path], start=float(outside * film.tick), num_frames=1, size=8)
    tick, stride = draw.random.randint(film.first, film.last), draw.random.randint(1, 4)
    draw.note(f"clip at {tick} of {film.tick} s, stride {stride}")
    start = float(tick * film.tick)
    clips = spdl.io.load_video_clips(
        [film.path], start=start, num_frames=3, stride=stride, layout="NTHWC",
        transform=spdl.io.ImageTransform(SHAPE, color="gray"),
    )  # fmt: skip
    position = max(index for index, each in enumerate(film.shown) if each.pts <= tick)
    expected = film.shown[position::stride][:3]
    expected += expected[-1:] * (3 - len(expected))
    found = [Shown(0, picture) for picture in spdl.io.to_numpy(clips).reshape(-1, *SHAPE)]
    assert [each.number for each in found] == [each.number for each in expected], f"clip at {start}, stride {stride}"


def check(draw: Draw, film: Film) -> None:
    packets = spdl.io.demux_video(film.path)
    _check_times(draw, film, packets)
    _check_indices(draw, film, packets)
    _check_windows(draw, film)
    if all(a.pts < b.pts for a, b in pairwise(film.shown)):
        _check_clip(draw, film)


_READERS: Final[dict[str, tuple[str | None, Callable[[Path], list[Shown]]]]] = {
    "the ffmpeg tool": (None, shown_by_ffmpeg),
    "PyAV": ("av", shown_by_pyav),
    "the newest ffmpeg tool": (NEWEST, lambda path: shown_by_ffmpeg(path, NEWEST)),
}


class TimesError(AssertionError):
    """A reader gives the same pictures, but at other times."""


def judge(film: Film, *, names: Sequence[str] = tuple(_READERS), has_times: bool = True) -> None:
    """Independent readers, those of ``names`` that are installed, give the same pictures at the same times."""
    suffix = film.path.suffix[1:]
    for name in names:
        module, read = _READERS[name]
        if module is not None and find_spec(module) is None:
            continue
        shown = read(film.path)
        expect_same(film.shown, shown, name)
        if has_times and suffix not in _COUNTED and [each.pts for each in film.shown] != [each.pts for each in shown]:
            raise TimesError(f"{name}: {[each.pts for each in shown]}; mine: {[each.pts for each in film.shown]}")


def expect_order(film: Film) -> None:
    numbers = [each.number for each in film.shown]
    assert numbers == sorted(numbers), numbers
