"""The law of pictures on screen, for edit lists with several parts; by arithmetic (ISO/IEC 14496-12, 8.6.6).

No independent reader can judge: FFmpeg 5.1 to 9.0 and all that link it place later parts too early, by the reordering
of pictures.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.judges.ffmpeg_tool import shown_by_ffmpeg
from tests.differential.mp4_edits import Clock, Edit, clock_of, write_edits

from . import files
from .forms import FORMS, TWINS, forms_of
from .on_screen import Film, check

_FORMS = forms_of(lambda _, form: form.suffix in ("mp4", "mov", "3gp"))
_WHOLE = [form for form in _FORMS if not form.startswith("fragmented")]
_COSTLY = [*TWINS, "mov/mjpeg"]
_RATE = 25


@dataclass(frozen=True, slots=True)
class _Media:
    """Pictures at a regular rate: number n is on screen from ``first + n * length`` on, in units of the media."""

    path: Path
    clock: Clock
    count: int
    first: int

    @property
    def length(self) -> int:
        return self.clock.media // _RATE


def _media_of(draw: Draw, form: str) -> _Media:
    options = ["-movie_timescale", str(draw.random.choice([600, 1000, 25, 90000]))]
    path = files.make_film(draw, FORMS[form], rate=str(_RATE), more=options)
    shown = shown_by_ffmpeg(path, before_input=["-ignore_editlist", "1"])
    return _Media(path, clock_of(path), len(shown), min(each.pts for each in shown))


def _parts(random: Random, media: _Media) -> list[Edit]:
    """Parts in the order of the media, of whole pictures or not; between some of them, nothing is presented."""
    count = random.randint(2, 4)
    is_whole = random.random() < 0.5
    bounds = sorted(random.sample(range(media.count * media.length if not is_whole else media.count), 2 * count))
    edits = []
    for start, end in zip(bounds[::2], bounds[1::2], strict=True):
        scale = media.length if is_whole else 1
        if random.random() < 0.4:
            edits.append(Edit(random.randint(1, media.clock.movie), None))
        # Writers round durations to the nearest unit.
        duration = round(Fraction((end - start) * scale * media.clock.movie, media.clock.media))
        edits.append(Edit(max(duration, 1), media.first + start * scale))
    if random.random() < 0.2:
        edits[-1] = Edit(0, edits[-1].start)  # up to the end
    return edits


def _nearest(time: Fraction) -> int:
    return math.floor(time + Fraction(1, 2))


def _expected(media: _Media, edits: list[Edit]) -> list[tuple[int, int]]:
    """The time and number of each picture that is presented: a part begins with the one on screen at its start."""
    found: list[tuple[int, int]] = []
    passed = 0
    starts = [edit.start for edit in edits if edit.start is not None]
    for edit in edits:
        begin = _nearest(media.clock.ticks(passed))
        passed += edit.duration
        if edit.start is None:
            continue
        end = edit.start + _nearest(media.clock.ticks(passed)) - begin if edit.duration else math.inf
        later = [start for start in starts if start > edit.start]
        end = min([end, *later[:1]])
        for number in range(media.count):
            at = media.first + number * media.length
            is_new = not found or found[-1][1] < number
            if at < end and at + media.length > edit.start and is_new:
                found.append((begin + max(at - edit.start, 0), number))
    return found


@law("video", "edit lists", _FORMS, costly=_COSTLY)
def several_parts(draw: Draw, form: str) -> None:
    """Pictures of each part, at the times at which it is presented."""
    media = _media_of(draw, form)
    edits = _parts(draw.random, media)
    draw.note(f"{edits} for {media}")
    write_edits(media.path, edits, is_wide=draw.random.random() < 0.3)
    film = Film.decode(media.path)
    assert [(each.pts, each.number) for each in film.shown] == _expected(media, edits)
    check(draw, film)
    _check_streaming(draw, film)
    _check_copy(draw, film)


def _check_copy(draw: Draw, film: Film) -> None:
    """Packets that are copied show the same pictures, or are refused for those between the parts."""
    path = film.path.with_name(f"copied{draw.random.choice(['.mkv', '.mp4'])}")
    packets = spdl.io.demux_video(film.path)
    muxer = spdl.io.Muxer(str(path))
    assert packets.codec is not None
    muxer.add_remux_stream(packets.codec)
    try:
        with muxer.open():
            muxer.write(0, packets)
    except spdl.io.MuxError as error:
        assert "edit list with several parts" in str(error)  # noqa: PT017
        return
    assert [each.number for each in Film.decode(path).shown] == [each.number for each in film.shown]


def _check_streaming(draw: Draw, film: Film) -> None:
    """All chunks hold the same pictures."""
    times: list[int] = []
    num_packets = draw.random.randint(1, 20)
    draw.note(f"{num_packets} packets at a time")
    with spdl.io.Demuxer(film.path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec)
        for chunk in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=num_packets):
            assert isinstance(chunk, spdl.io.VideoPackets)
            for frames in decoder.streaming_decode_packets(chunk):
                times += frames.get_pts()
        for frames in decoder.flush():
            times += frames.get_pts()
    assert times == [each.pts for each in film.shown], "in chunks"


@law("video", "edit lists refused", _FORMS, costly=_COSTLY)
def refused(draw: Draw, form: str) -> None:
    """Media again, in another order, or at another speed."""
    media = _media_of(draw, form)
    unit = media.clock.movie // _RATE
    starts = sorted(draw.random.sample(range(media.count), 2))
    first, second = (Edit(3 * unit, media.first + start * media.length) for start in starts)
    chosen = draw.random.choice([[second, first], [first, second, first], [first, first],
                                 [Edit(first.duration, first.start, 1 << 17)],
                                 [first, Edit(unit, (second.start or 0) + 3 * media.length, 0)]])  # fmt: skip
    draw.note(f"{chosen} for {media}")
    write_edits(media.path, chosen)
    with pytest.raises(spdl.io.DemuxError, match=r"edit list presents parts of the media again.*ignore_editlist"):
        spdl.io.demux_video(media.path)
    with pytest.raises(spdl.io.DemuxError, match="edit list"):
        spdl.io.load_video(media.path)
    spdl.io.load_video(media.path, demux_config=spdl.io.demux_config(format_options={"ignore_editlist": "1"}))


@law("video", "edit lists of one part", _WHOLE, costly=_COSTLY)
def one_part(draw: Draw, form: str) -> None:
    """A trim to a whole picture, behind a time at which nothing is presented or not."""
    media = _media_of(draw, form)
    first = draw.random.randrange(media.count - 2)
    last = draw.random.randint(first + 1, media.count)
    unit = Fraction(media.clock.movie, _RATE)
    edits = [Edit(math.ceil((last - first) * unit), media.first + first * media.length)]
    if draw.random.random() < 0.5:
        edits.insert(0, Edit(round(draw.random.randint(1, 50) * unit), None))
    draw.note(f"{edits} for {media}")
    write_edits(media.path, edits)
    film = Film.decode(media.path)
    assert [(each.pts, each.number) for each in film.shown] == _expected(media, edits)
    check(draw, film)
