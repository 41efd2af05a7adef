"""Windows of FLAC files, whose frames are found by bisection: the samples are those that were written."""

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.flac import flac_file, frame_header, id3

_RATE = 8000
_TOTAL = 6500


def _noise(channels: int = 1, bits: int = 16, total: int = _TOTAL) -> NDArray[np.int32]:
    generator = np.random.default_rng(7)
    return generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), (channels, total), dtype=np.int32)


def _loaded(file: bytes, first: int, end: int) -> NDArray[np.int32]:
    array: NDArray[Any] = spdl.io.to_numpy(spdl.io.load_audio(file, (first / _RATE, end / _RATE), dtype="int32"))
    return array


def _check(file: bytes, samples: NDArray[np.int32], bits: int = 16, num_windows: int = 12) -> None:
    """Random windows, the first and the last one."""
    total = samples.shape[1]
    generator = random.Random(total)
    windows = [(0, 1), (0, total), (total - 1, total), (total // 2, total + 1000)]
    for _ in range(num_windows):
        first = generator.randrange(total)
        windows.append((first, min(first + generator.choice((1, 50, 700)), total)))
    for first, end in windows:
        assert np.array_equal(_loaded(file, first, end), samples[:, first:end] << (32 - bits)), (first, end)


@pytest.mark.parametrize("is_table", [False, True], ids=["no_table", "table"])
@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("bits", [16, 24])
@pytest.mark.parametrize("sizes", [192, (300, 16, 1000, 77)], ids=["fixed", "variable"])
def test_windows_are_what_was_written(sizes: Any, bits: int, channels: int, is_table: bool) -> None:
    """Whatever the form of the frames is, with a table for seeking and without."""
    samples = _noise(channels, bits, 3000)
    file, _ = flac_file(samples, sizes, bits=bits, is_table=is_table)
    _check(file, samples, bits, num_windows=6)


def test_numbers_of_frames_of_any_length_are_read() -> None:
    """From one byte to three, as frames and as samples."""
    for sizes, total in ((16, 16 * 2100), ((16, 32), 5000)):
        samples = np.tile(_noise(total=500), 100)[:, :total]
        file, _ = flac_file(samples, sizes)
        for first in (10, 16 * 127 + 8, total - 16 * 52 - 5, total - 10):
            assert np.array_equal(_loaded(file, first, first + 10), samples[:, first : first + 10] << 16)


def test_tags_in_front_are_passed_over() -> None:
    """ID3 does not belong there, and is found there."""
    samples = _noise()
    file, _ = flac_file(samples, 192)
    _check(id3(5000) + file, samples)


def test_damage_outside_of_the_window_is_not_seen() -> None:
    """A frame with a wrong checksum raises where it is wanted, and nowhere else."""
    samples = _noise()
    file, positions = flac_file(samples, 192)
    damaged = bytearray(file)
    damaged[positions[10] + 100] ^= 1
    for first, end in ((0, 9 * 192), (13 * 192, 15 * 192), (_TOTAL - 100, _TOTAL)):
        assert np.array_equal(_loaded(bytes(damaged), first, end), samples[:, first:end] << 16)
    with pytest.raises(spdl.io.DecodeError):
        _loaded(bytes(damaged), 10 * 192, 11 * 192)


def test_garbage_behind_the_last_frame_changes_nothing_before_it() -> None:
    """A tag, or anything else."""
    samples = _noise()
    file, _ = flac_file(samples, 192)
    for garbage in (b"TAG".ljust(128, b"\0"), bytes(3000), b"\xff\xf8" * 500):
        for first, end in ((0, 100), (3000, 3500), (_TOTAL - 2000, _TOTAL - 1000)):
            assert np.array_equal(_loaded(file + garbage, first, end), samples[:, first:end] << 16)


def test_a_file_that_ends_early_has_the_samples_before_its_end() -> None:
    """In the middle of a frame, and between two frames."""
    samples = _noise()
    file, positions = flac_file(samples, 192)
    for end_of_file in (positions[20], positions[20] + 100):
        for first, end in ((0, 100), (1000, 1500), (18 * 192, 19 * 192)):
            assert np.array_equal(_loaded(file[:end_of_file], first, end), samples[:, first:end] << 16)


@pytest.mark.parametrize("is_next", [True, False], ids=["next", "any"])
def test_what_looks_like_a_header_among_samples_is_none(is_next: bool) -> None:
    """Headers with right checksums, also of the frame that comes next, stand in the data of every frame."""
    samples = _noise(total=3000)
    for frame in range(15):
        number = frame + 1 if is_next else frame * 7 % 15
        header = frame_header(number, 192, 1, 16)
        header += b"\0" * (-len(header) % 2)
        values = np.frombuffer(header, ">i2")
        for place in (5, 100):
            start = frame * 192 + place
            samples[0, start : start + len(values)] = values
    file, _ = flac_file(samples, 192)
    _check(file, samples)


def test_a_frame_that_is_missing_is_not_passed_over() -> None:
    """Where it was, there is silence."""
    samples = _noise()
    file, positions = flac_file(samples, 192)
    cut = file[: positions[12]] + file[positions[16] :]
    assert np.array_equal(_loaded(cut, 100, 1000), samples[:, 100:1000] << 16)
    assert np.array_equal(_loaded(cut, 20 * 192, 21 * 192), samples[:, 20 * 192 : 21 * 192] << 16)
    across = _loaded(cut, 11 * 192, 17 * 192)
    assert across.shape == (1, 6 * 192)
    assert np.array_equal(across[:, :192], samples[:, 11 * 192 : 12 * 192] << 16)
    assert not across[:, 192 : 5 * 192].any()
    assert np.array_equal(across[:, 5 * 192 :], samples[:, 16 * 192 : 17 * 192] << 16)
