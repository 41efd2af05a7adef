"""``load_video(orient=True)``, compared with the ffmpeg tool, which turns pictures as players do."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import decoded_video, h264, run_ffmpeg

# Matrices of the track header (a, b, c, d), by what they do to the stored picture.
_MATRICES = {
    "upright": (1, 0, 0, 1), "90": (0, 1, -1, 0), "180": (-1, 0, 0, -1), "270": (0, -1, 1, 0),
    "hflip": (-1, 0, 0, 1), "vflip": (1, 0, 0, -1), "transposed": (0, 1, 1, 0), "transversed": (0, -1, -1, 0),
}  # fmt: skip
_EACH = pytest.mark.parametrize("turn", sorted(_MATRICES))


def _turned(turn: str) -> bytes:
    """The film with another matrix in its header."""
    data = bytearray(h264().read_bytes())
    a, b, c, d = _MATRICES[turn]
    place = data.index(b"tkhd") + 44  # behind the times, the duration, the layer and the volume
    data[place : place + 36] = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)
    return bytes(data)


def _shown(path: Path, *, swaps: bool) -> NDArray[np.uint8]:
    raw = run_ffmpeg("-i", path, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    height, width = (64, 48) if swaps else (48, 64)
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def _loaded(source: Any, *args: Any, **options: Any) -> NDArray[np.uint8]:
    array: NDArray[np.uint8] = spdl.io.to_numpy(spdl.io.load_video(source, *args, **options))
    return array


@_EACH
def test_frames_are_what_the_tool_shows(turn: str, tmp_path: Path) -> None:
    """For each way in which a matrix can turn or mirror them; and as stored if that is not asked for."""
    path = tmp_path / "film.mp4"
    path.write_bytes(_turned(turn))
    swaps = _MATRICES[turn][0] == 0
    gray = spdl.io.get_video_filter_desc(pix_fmt="gray")
    assert np.array_equal(_loaded(path, filter_desc=gray), decoded_video(h264(), "gray", (48, 64, 1)))
    assert np.array_equal(_loaded(path, orient=True), _shown(path, swaps=swaps))


def test_a_window_in_memory_is_turned_too() -> None:
    """Whatever the source and the window are."""
    data = _turned("90")
    assert np.array_equal(_loaded(data, (0.5, 1.0), orient=True), _loaded(data, orient=True)[13:25])


def test_filters_see_upright_frames() -> None:
    """Sizes and crops are of what is shown; a description may have labels, or be none."""
    data = _turned("270")
    upright = _loaded(data, orient=True)
    crop = "crop=16:24:0:0:exact=1,format=pix_fmts=rgb24"
    for description in (crop, f"[in]{crop}[out]"):
        assert _loaded(data, filter_desc=description, orient=True).shape == (50, 24, 16, 3)
    scaled = spdl.io.get_video_filter_desc(scale_width=24, scale_height=32, scale_mode=None)
    assert _loaded(data, filter_desc=scaled, orient=True).shape == (50, 32, 24, 3)
    assert _loaded(data, filter_desc=None, orient=True).shape[0] == len(upright)


def test_orient_is_a_bool() -> None:
    """Anything else is refused."""
    with pytest.raises(TypeError, match="orient must be a bool, got 1 of type int"):
        spdl.io.load_video(h264(), orient=1)  # type: ignore[call-overload]
