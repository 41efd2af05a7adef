"""The ffmpeg tool: that of the system (tried: 5.1), and that of imageio-ffmpeg (tried: FFmpeg 9.0).

The first is the library that SPDL is linked with, so it is no judge of that library's own faults. Do not believe 5.1
about the ends of AAC, MP3 and AC-3 in MP4 and Matroska (padding stays), and of Opus in MP4 and fragmented MP4.
"""

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.differential.cells import Draw, NotMadeError

__all__ = ["NEWEST", "SYSTEM", "decoded_sound", "make"]

#: The tool of the system.
SYSTEM = "ffmpeg"
#: The module with the newest tool.
NEWEST = "imageio_ffmpeg"


@functools.cache
def _program(tool: str) -> str:
    if tool == SYSTEM:
        return tool
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


def make(draw: Draw, *arguments: object, tool: str = SYSTEM, stdin: bytes = b"") -> None:
    """Run the tool to write a file.

    Raises:
        NotMadeError: This build lacks the encoder or the muxer.
    """
    command = [_program(tool), "-hide_banner", "-nostdin", "-v", "error", "-y", *map(str, arguments)]
    if stdin:
        command.remove("-nostdin")
    draw.note(" ".join(command))
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    said = done.stderr.decode(errors="replace")
    if done.returncode != 0 and ("Unknown encoder" in said or "not suitable" in said or "Encoder not found" in said):
        raise NotMadeError(said.strip())
    assert done.returncode == 0, said


def decoded_sound(path: Path, num_channels: int, tool: str = SYSTEM, options: Sequence[str] = ()) -> NDArray[Any]:
    """All samples of the first stream of sound as ``float32``, ``(channels, samples)``."""
    command = [_program(tool), "-nostdin", "-v", "error", "-i", str(path), "-map", "0:a:0", *options,
               "-f", "f32le", "-c:a", "pcm_f32le", "-"]  # fmt: skip
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.float32).reshape(-1, num_channels).T
