"""What the tests of the matrix share: our way from a clip to arrays, and comparison that says where it differs."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spdl.io
from tests.support.clip_matrix import VideoClip


def config_of(clip: VideoClip) -> Any:
    """How to decode the clip, where it wants a decoder of its own."""
    return None if clip.decoder is None else spdl.io.decode_config(decoder=clip.decoder)


def filter_to(clip: VideoClip, pix_fmt: str) -> str | None:
    """What turns decoded pictures into that format: nothing, if they are of that format."""
    return None if pix_fmt == clip.pix_fmt else f"format=pix_fmts={pix_fmt}"


def array_of(frames: Any) -> NDArray[Any]:
    """Pictures or samples in the shape that the format has."""
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def assert_same(given: NDArray[Any], expected: NDArray[Any]) -> None:
    """Fails with the first picture (or sample) that differs, and by how much."""
    assert (given.shape, given.dtype) == (expected.shape, expected.dtype)
    if np.array_equal(given, expected):
        return
    differing = [index for index in range(len(given)) if not np.array_equal(given[index], expected[index])]
    first = differing[0]
    worst = np.abs(given.astype(np.float64) - expected.astype(np.float64)).max()
    raise AssertionError(f"{len(differing)} of {len(given)} differ, the first is {first}; greatest difference: {worst}")


def inside(times: tuple[Fraction, ...], window: tuple[Fraction, Fraction]) -> list[int]:
    """Indices of the frames whose time is in the half-open window."""
    return [index for index, time in enumerate(times) if window[0] <= time < window[1]]
