"""Clips made by the ffmpeg tool, and their output decoded by the ffmpeg tool: the reference for the media code.

Both are kept under ``.cache/clips`` from one run to the next, by a hash of the arguments, of the files that they name
and of the tool's version. The folder may be removed at any time between runs; ``SPDL_CLIPS`` names another. Clips are
read only: a test that damages one copies it first.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FOLDER = Path(os.environ.get("SPDL_CLIPS") or Path(__file__).parents[2] / ".cache" / "clips").absolute()


@functools.cache
def _version() -> str:
    return subprocess.run(["ffmpeg", "-version"], capture_output=True, check=True, text=True).stdout


def _key(*words: str | Path) -> str:
    """The cache key of the tool's output for these arguments."""
    digest = hashlib.sha256(_version().encode())
    for word in map(str, words):
        digest.update(b"\0" + word.encode())
        # A clip's path already has a hash of its inputs. Other files may change under the same name.
        if word.startswith(os.sep) and not Path(word).is_relative_to(_FOLDER) and Path(word).is_file():
            digest.update(b"\0" + hashlib.sha256(Path(word).read_bytes()).digest())
    return digest.hexdigest()[:32]


def _kept(name: str, key: str, make: Callable[[Path], object]) -> Path:
    """The file of that name; ``make`` writes it if it does not exist. Several processes may request it at once."""
    path = _FOLDER / key / name
    if not path.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=_FOLDER, prefix="making-"))
        try:
            make(folder / name)
            (folder / name).chmod(0o444)
            folder.rename(path.parent)
        except OSError:
            if not path.exists():  # another process was faster
                raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return path


def output_about(path: Path, command: list[str]) -> bytes:
    """The output of a command on ``path``, which is one of its arguments; cached if that is a clip."""

    def run() -> bytes:
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"`{' '.join(command)}` failed: {done.stderr.decode(errors='replace')}")
        return done.stdout

    if not path.is_relative_to(_FOLDER):
        return run()
    return _kept("output", _key(*command), lambda output: output.write_bytes(run())).read_bytes()


def ffmpeg_command(*args: str | Path) -> list[str]:
    """The command line of the ffmpeg tool with these and the usual arguments."""
    return ["ffmpeg", "-hide_banner", "-nostdin", "-v", "error", "-y", *map(str, args)]


def run_ffmpeg(*args: str | Path, stdin: bytes = b"") -> bytes:
    """Run the ffmpeg tool and return its standard output."""
    command = ffmpeg_command(*args)
    done = subprocess.run(command, capture_output=True, check=False, input=stdin)
    if done.returncode != 0:
        raise AssertionError(f"`{' '.join(command)}` failed: {done.stderr.decode(errors='replace')}")
    return done.stdout


@functools.cache
def clip(name: str, *args: str) -> Path:
    """A file of that name, made by ``ffmpeg args... name``. The same call gives the same file."""
    return _kept(name, _key("clip", name, *args), lambda path: run_ffmpeg(*args, "-bitexact", path))


def turned(source: Path, degrees: int) -> tuple[str, ...]:
    """Arguments for the ffmpeg tool: the streams of ``source``, with a tag to turn pictures clockwise for display."""
    number = re.match(r"ffmpeg version n?(\d+)", _version())
    if number is not None and int(number[1]) < 6:
        return ("-i", str(source), "-c", "copy", "-metadata:s:v:0", f"rotate={degrees}")
    return ("-display_rotation:v:0", str(-degrees), "-i", str(source), "-c", "copy")


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
    command = ffmpeg_command("-noautorotate", "-i", path, "-map", "0:v:0", "-fps_mode", "passthrough", *options,
                      "-f", "rawvideo", "-pix_fmt", pix_fmt, "-")  # fmt: skip
    raw = output_about(path, command)
    return np.frombuffer(raw, np.uint8).reshape(-1, *shape)


def _edited_samples(path: Path) -> int:
    """The number of samples that the header of an MP4 file lets its first sound last, as ffprobe tells it."""
    command = ["ffprobe", "-v", "error", "-select_streams", "a:0", "-show_entries", "stream=duration,sample_rate",
               "-of", "json", str(path)]  # fmt: skip
    stream = json.loads(output_about(path, command))["streams"][0]
    return round(float(stream["duration"]) * int(stream["sample_rate"]))


def decoded_audio(path: Path, num_channels: int, *options: str) -> NDArray[np.float32]:
    """Every sample as the ffmpeg tool decodes it, ``(samples, channels)``.

    Before version 8, the tool leaves in what is behind the edit list of an MP4 file. So it is told where to end. All
    versions count samples that the first packet of Vorbis in Ogg does not give, and cut off as many at the end; the
    granule position of the last page is where it ends.
    """
    before: tuple[str, ...] = ()
    end = _edited_samples(path) if path.suffix in (".mp4", ".m4a", ".mov") else None
    if path.suffix == ".ogg" and b"\1vorbis" in (data := path.read_bytes())[:64]:
        before = ("-flags2", "+skip_manual")
        end = struct.unpack_from("<q", data, data.rindex(b"OggS") + 6)[0]
    if end is not None:
        filters = f"atrim=end_sample={end}"
        if "-af" in options:
            at = options.index("-af")
            filters += f",{options[at + 1]}"
            options = options[:at] + options[at + 2 :]
        options = (*options, "-af", filters)
    command = ffmpeg_command(*before, "-i", path, "-map", "0:a:0", *options, "-f", "f32le", "-c:a", "pcm_f32le", "-")
    raw = output_about(path, command)
    return np.frombuffer(raw, np.float32).reshape(-1, num_channels)


def probed_frames(path: Path, stream: str = "v:0") -> list[dict[str, Any]]:
    """The facts from ffprobe about each frame of a stream."""
    command = ["ffprobe", "-v", "error", "-select_streams", stream, "-show_frames", "-of", "json", str(path)]
    frames: list[dict[str, Any]] = json.loads(output_about(path, command))["frames"]
    return frames
