"""The ffmpeg tool of the system (tried with 5.1): all pictures with their times.

It links the same libraries as SPDL, so it says nothing about faults of libav itself, such as the times of B-frames in
containers without presentation times.
"""

import re
import subprocess
from pathlib import Path

import numpy as np

from tests.differential.video.films import SHAPE, Shown

_LINE = re.compile(rb"\bn: *(\d+) pts: *(-?\d+)")


def shown_by_ffmpeg(path: Path, *options: str) -> list[Shown]:
    """Every picture that comes out, in that order, with its time in ticks of the stream."""
    height, width = SHAPE
    command = [
        "ffmpeg",
        "-nostdin",
        "-v",
        "info",
        "-copyts",
        "-noautorotate",
        "-threads",
        "1",
        *options,
        "-i",
        str(path),
    ]
    command += ["-map", "0:v:0", "-vf", f"showinfo=checksum=0,scale={width}:{height},format=gray"]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    done = subprocess.run(command, capture_output=True, check=False)
    times = {int(number): int(pts) for number, pts in _LINE.findall(done.stderr)}
    pictures = np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width)
    assert len(times) == len(pictures), done.stderr.decode()[-2000:]
    return [Shown(times[number], picture) for number, picture in enumerate(pictures)]
