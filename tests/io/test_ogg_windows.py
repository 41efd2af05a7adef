"""Windows of Ogg files with Vorbis or Opus, whose pages are found by bisection: what NumPy selects from everything."""

import io
import math
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import clip, tones
from tests.support.media_mutations import with_ogg_checks

SECONDS = 12
CHORD = "0.3*sin(2*PI*(300+80*t)*t)+0.2*sin(2*PI*(1200-90*t)*t)*sin(9*t)"
# Name of the clip: sample rate, and what encodes it: pages of 4 kB, of two seconds, of a single packet.
CLIPS: dict[str, tuple[int, tuple[str, ...]]] = {
    "vorbis.ogg": (44100, ("-c:a", "libvorbis")),
    "long-pages.ogg": (44100, ("-c:a", "libvorbis", "-page_duration", "2000000")),
    "short-pages.ogg": (16000, ("-c:a", "libvorbis", "-page_duration", "1000")),
    "variable.ogg": (22050, ("-c:a", "libvorbis", "-q:a", "0", "-af", "volume='gt(t,6)':eval=frame")),
    "opus.opus": (48000, ("-c:a", "libopus")),
    "opus-short-pages.opus": (48000, ("-c:a", "libopus", "-frame_duration", "60", "-page_duration", "1000")),
}
EACH_CLIP = pytest.mark.parametrize("name", CLIPS)
Array = NDArray[np.float32]


def path_of(name: str) -> Path:
    rate, arguments = CLIPS[name]
    return clip(name, *tones(rate, SECONDS, CHORD), *arguments)


def loaded(source: Any, *window: Any, **options: Any) -> Array:
    array: Array = spdl.io.to_numpy(spdl.io.load_audio(source, *window, **options))
    return array


@cache
def whole(name: str) -> Array:
    return loaded(path_of(name))


def windows(seed: int, count: int, rate: int) -> Iterator[tuple[int, int]]:
    """Edges in samples: at random, and those that no rounding may miss."""
    rng = random.Random(seed)
    yield from [(0, 100), (rate, rate + 1), (SECONDS * rate - 50, SECONDS * rate), (5 * rate, SECONDS * rate)]
    for _ in range(count):
        first = rng.randrange(SECONDS * rate)
        yield first, min(first + rng.choice([1, 300, rate]), SECONDS * rate)


def pages(data: bytes) -> list[int]:
    """Where the pages begin."""
    found, at = [], 0
    while at < len(data):
        assert data[at : at + 4] == b"OggS"
        found.append(at)
        lengths = data[at + 27 : at + 27 + data[at + 26]]
        at += 27 + len(lengths) + sum(lengths)
    return found


@EACH_CLIP
def test_a_window_is_what_numpy_selects(name: str) -> None:
    """Each sample, at any place, of a path and of bytes."""
    rate = CLIPS[name][0]
    data = path_of(name).read_bytes()
    for first, end in windows(1, 25, rate):
        expected = whole(name)[:, first:end]
        for source in (path_of(name), data):
            assert np.array_equal(loaded(source, (first / rate, end / rate)), expected), (first, end)


def test_windows_begin_and_end_between_blocks_of_different_sizes() -> None:
    """Clicks make the encoder change to short blocks, of which FFmpeg 5.1's demuxer gets the times wrong."""
    clicks = "aevalsrc='0.1*sin(880*t)+0.8*lt(mod(t,0.37),0.001)':s=44100:d=4"
    path = clip("clicks.ogg", "-f", "lavfi", "-i", clicks, "-c:a", "libvorbis")
    everything = loaded(path)
    for step in range(380):
        first, end = step * 441, step * 441 + 8820
        found = loaded(path, (first / 44100, end / 44100))
        assert np.array_equal(found, everything[:, first:end]), step


@EACH_CLIP
def test_demuxed_windows_are_what_numpy_selects(name: str) -> None:
    """Packets for filters, of which there are more before the window."""
    rate = CLIPS[name][0]
    for first, end in windows(2, 5, rate):
        packets = spdl.io.demux_audio(path_of(name), timestamp=(first / rate, end / rate))
        decoded = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets)))
        assert np.array_equal(decoded, whole(name)[:, first:end]), (first, end)


def test_packets_that_go_on_in_the_next_page_are_whole() -> None:
    """Packets of a high bit rate fill pages, which end in the middle of one."""
    noise = ("-f", "lavfi", "-i", "anoisesrc=r=48000:d=12:seed=1,aformat=sample_fmts=flt:channel_layouts=5.1")
    path = clip("spanning.ogg", *noise, "-c:a", "libvorbis", "-q:a", "10", "-page_duration", "3000000")
    data = path.read_bytes()
    is_continued = [data[page + 5] & 1 for page in pages(data)]
    assert sum(is_continued) > 10
    everything = loaded(path)
    for first, end in windows(3, 12, 48000):
        assert np.array_equal(loaded(path, (first / 48000, end / 48000)), everything[:, first:end]), (first, end)


class Counting(io.BytesIO):
    """A file that counts what is read."""

    num_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.num_read += len(data)
        return data


@pytest.mark.parametrize("codec", ["libvorbis", "libopus"])
def test_a_window_late_in_a_long_file_reads_little(codec: str) -> None:
    """A few blocks on the way to it, not what is before it."""
    noise = ("-f", "lavfi", "-i", "anoisesrc=r=48000:d=240:seed=1,aformat=sample_fmts=flt:channel_layouts=stereo")
    data = clip(f"{codec}-long.ogg", *noise, "-c:a", codec, "-b:a", "160k").read_bytes()
    counts = []
    for start in (100.0, 200.0, 238.0):
        file = Counting(data)
        assert loaded(file, (start, start + 1)).shape[1] == 48000
        counts.append(file.num_read)
    assert max(counts) < len(data) / 4, (counts, len(data))


def without(data: bytes, first: int, end: int) -> bytes:
    """The file without some of its pages."""
    places = [*pages(data), len(data)]
    return data[: places[first]] + data[places[end] :]


@pytest.mark.parametrize("name", ["vorbis.ogg", "opus.opus"])
def test_samples_behind_missing_pages_keep_their_times(name: str) -> None:
    """They are not taken for those that are missing."""
    rate, data = CLIPS[name][0], path_of(name).read_bytes()
    count = len(pages(data))
    cut = without(data, count // 3, count // 3 + 2)
    for first, end in ((rate, 2 * rate), (9 * rate, 10 * rate)):
        assert np.abs(loaded(cut, (first / rate, end / rate)) - whole(name)[:, first:end]).max() < 1e-3


@pytest.mark.parametrize("name", ["vorbis.ogg", "opus.opus"])
def test_damage_outside_of_the_window_is_not_seen(name: str) -> None:
    """A page with a wrong checksum matters where it is wanted, and nowhere else."""
    rate, data = CLIPS[name][0], bytearray(path_of(name).read_bytes())
    places = pages(bytes(data))
    data[places[len(places) // 2] + 100] ^= 1
    for first, end in ((rate, 2 * rate), (10 * rate, 11 * rate)):
        assert np.array_equal(loaded(bytes(data), (first / rate, end / rate)), whole(name)[:, first:end])


@pytest.mark.parametrize("name", ["vorbis.ogg", "opus.opus"])
@pytest.mark.parametrize("damage", ["changed", "missing", "cut off"])
def test_damage_in_the_window_is_an_error(name: str, damage: str) -> None:
    """As for the whole; tolerant reading gives what is there, at its times."""
    rate, data = CLIPS[name][0], path_of(name).read_bytes()
    places = pages(data)
    middle = len(places) // 2
    broken = {
        "changed": data[: places[middle] + 100]
        + bytes([data[places[middle] + 100] ^ 4])
        + data[places[middle] + 101 :],
        "missing": without(data, middle, middle + 1),
        "cut off": data[: places[middle] + 60],
    }[damage]
    seconds = SECONDS * middle / len(places)
    window = (seconds - 2.5, seconds + 2.5)
    words = "ends early" if damage == "cut off" else "damaged or missing"
    with pytest.raises(spdl.io.DemuxError, match=words):
        loaded(broken, window)
    with pytest.raises(spdl.io.DemuxError, match=words):
        spdl.io.demux_audio(broken, timestamp=window)
    tolerant = spdl.io.demux_config(tolerate_errors=True)
    first, end = (math.ceil(edge * rate) for edge in window)
    found, expected = loaded(broken, window, demux_config=tolerant), whole(name)[:, first:end]
    assert rate < found.shape[1] < expected.shape[1]
    assert np.abs(found[:, :rate] - expected[:, :rate]).max() < 1e-3
    if damage != "cut off":
        assert np.abs(found[:, -rate // 2 :] - expected[:, -rate // 2 :]).max() < 1e-3
    assert spdl.io.demux_audio(broken, timestamp=window, demux_config=tolerant).num_errors == 1


@pytest.mark.parametrize("name", ["vorbis.ogg", "opus.opus"])
def test_a_file_that_ends_early_has_the_samples_before_its_end(name: str) -> None:
    """In the middle of a page, and between two pages."""
    rate, data = CLIPS[name][0], path_of(name).read_bytes()
    places = pages(data)
    for end_of_file in (places[len(places) * 3 // 4], places[len(places) * 3 // 4] + 50):
        for first, end in ((0, 100), (2 * rate, 3 * rate), (5 * rate, 5 * rate + 500)):
            assert np.array_equal(loaded(data[:end_of_file], (first / rate, end / rate)), whole(name)[:, first:end])


@pytest.mark.parametrize("name", ["vorbis.ogg", "opus.opus"])
def test_bytes_behind_the_last_page_change_nothing_before_it(name: str) -> None:
    """Zeros, text, and what looks like pages."""
    rate, data = CLIPS[name][0], path_of(name).read_bytes()
    for garbage in (bytes(3000), b"TAG".ljust(128, b"\0"), b"OggS\0" * 1000):
        for first, end in ((rate, rate + 100), (4 * rate, 5 * rate)):
            assert np.array_equal(loaded(data + garbage, (first / rate, end / rate)), whole(name)[:, first:end])


@pytest.mark.parametrize("name", ["vorbis.ogg", "opus.opus"])
def test_what_looks_like_a_page_within_a_page_is_none(name: str) -> None:
    """Headers of other pages in the data of every fourth: the others have the samples that they had."""
    rate, data = CLIPS[name][0], bytearray(path_of(name).read_bytes())
    places = pages(bytes(data))
    for place, other in zip(places[4:-2:4], places[6:], strict=False):
        at = place + 27 + data[place + 26] + 200
        data[at : at + 27] = data[other : other + 27]
    damaged = with_ogg_checks(bytes(data), places)
    num_right = 0
    for first, end in windows(4, 60, rate):
        try:
            found = loaded(damaged, (first / rate, min(first + 100, end) / rate))
        except spdl.io.MediaError:
            continue
        num_right += np.array_equal(found, whole(name)[:, first : min(first + 100, end)])
    assert num_right > 5


@pytest.mark.parametrize("name", ["vorbis.ogg", "opus.opus"])
def test_windows_of_chained_files_load_or_fail(name: str) -> None:
    """The first part is as it would be alone; behind it, there is a result or a typed error."""
    rate, data = CLIPS[name][0], path_of(name).read_bytes()
    other = bytearray(data)
    for place in pages(data):
        other[place + 14 : place + 18] = b"next"  # another serial number
    chained = data + with_ogg_checks(bytes(other))
    for first, end in ((rate, 2 * rate), (7 * rate, 8 * rate)):
        assert np.array_equal(loaded(chained, (first / rate, end / rate)), whole(name)[:, first:end])
    for start in (11.9, 13.0, 20.0, 30.0):
        with suppress(spdl.io.MediaError):
            assert loaded(chained, (start, start + 0.5)).shape[1] <= rate
