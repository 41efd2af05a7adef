"""Clips that the ffmpeg tool makes, and what the ffmpeg tool decodes of them: the judge of our media code.

``clip`` keeps what it made for the length of the test run, so that tests which want the same clip share it. Clips are
read only: a test that damages one copies it first.
"""

import atexit
import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="spdl-clips-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_ffmpeg(*args: str | Path, stdin: bytes = b"") -> bytes:
    """Runs the ffmpeg tool and returns what it wrote to its standard output."""
    command = ["ffmpeg", "-hide_banner", "-nostdin", "-v", "error", "-y", *map(str, args)]
    done = subprocess.run(command, capture_output=True, check=False, input=stdin)
    if done.returncode != 0:
        raise AssertionError(f"`{' '.join(command)}` failed: {done.stderr.decode(errors='replace')}")
    return done.stdout


@functools.cache
def clip(name: str, *args: str) -> Path:
    """A file of that name, made by ``ffmpeg args... name``. The same call gives the same file."""
    path = Path(tempfile.mkdtemp(dir=_folder())) / name
    run_ffmpeg(*args, "-bitexact", path)
    return path


def pictures(size: str = "64x48", rate: str = "25", duration: float = 2.0, source: str = "testsrc2") -> tuple[str, ...]:
    """Arguments for the ffmpeg tool: moving test pictures as an input."""
    return ("-f", "lavfi", "-i", f"{source}=size={size}:rate={rate}:duration={duration}")


def tones(sample_rate: int = 8000, duration: float = 2.0, expression: str = "sin(440*2*PI*t)") -> tuple[str, ...]:
    """Arguments for the ffmpeg tool: samples as an input, one expression for each channel, separated by ``|``."""
    return ("-f", "lavfi", "-i", f"aevalsrc={expression}:s={sample_rate}:d={duration}")


def h264(**video: Any) -> Path:
    """Two seconds of 64x48 at 25 frames/s in MP4, key frames every 12, with B-frames."""
    return clip("h264.mp4", *pictures(**video), "-c:v", "libx264", "-g", "12", "-bf", "2", "-pix_fmt", "yuv420p")


def decoded_video(path: Path, pix_fmt: str, shape: tuple[int, ...], *options: str) -> NDArray[np.uint8]:
    """Every frame as the ffmpeg tool decodes it, ``(N, *shape)``. Frames are neither repeated, dropped nor turned."""
    raw = run_ffmpeg("-noautorotate", "-i", path, "-map", "0:v:0", "-fps_mode", "passthrough", *options,
                     "-f", "rawvideo", "-pix_fmt", pix_fmt, "-")  # fmt: skip
    return np.frombuffer(raw, np.uint8).reshape(-1, *shape)


def decoded_audio(path: Path, num_channels: int, *options: str) -> NDArray[np.float32]:
    """Every sample as the ffmpeg tool decodes it, ``(samples, channels)``."""
    raw = run_ffmpeg("-i", path, "-map", "0:a:0", *options, "-f", "f32le", "-c:a", "pcm_f32le", "-")
    return np.frombuffer(raw, np.float32).reshape(-1, num_channels)


def probed_frames(path: Path, stream: str = "v:0") -> list[dict[str, Any]]:
    """What ffprobe says of each frame of a stream."""
    command = ["ffprobe", "-v", "error", "-select_streams", stream, "-show_frames", "-of", "json", str(path)]
    frames: list[dict[str, Any]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["frames"]
    return frames
