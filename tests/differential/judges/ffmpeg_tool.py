"""The ffmpeg tool: that of the system (tried: 5.1), and that of imageio-ffmpeg (tried: FFmpeg 9.0).

The first links the same libraries as SPDL, so it says nothing about faults of libav itself, such as the times of
B-frames in containers without presentation times.
"""

import functools
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.differential.video.films import SHAPE, Shown

__all__ = ["NEWEST", "SYSTEM", "shown_by_ffmpeg"]

#: The tool of the system.
SYSTEM = "ffmpeg"
#: The module with the newest tool.
NEWEST = "imageio_ffmpeg"

_LINE = re.compile(rb"\bn: *(\d+) pts: *(-?\d+)")


@functools.cache
def _program(tool: str) -> str:
    if tool == SYSTEM:
        return tool
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


def shown_by_ffmpeg(path: Path, tool: str = SYSTEM, before_input: Sequence[str] = ()) -> list[Shown]:
    """Every picture that comes out, in that order, with its time in ticks of the stream."""
    height, width = SHAPE
    command = [_program(tool), "-nostdin", "-v", "info", "-copyts", "-noautorotate", "-threads", "1"]
    command += [*before_input, "-i", str(path)]
    command += ["-map", "0:v:0", "-vf", f"showinfo=checksum=0,scale={width}:{height},format=gray"]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    done = subprocess.run(command, capture_output=True, check=False)
    times = {int(number): int(pts) for number, pts in _LINE.findall(done.stderr)}
    pictures = np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width)
    assert len(times) == len(pictures), done.stderr.decode()[-2000:]
    return [Shown(times[number], picture) for number, picture in enumerate(pictures)]
