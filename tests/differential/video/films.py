"""Films whose pictures carry their number, made by the ffmpeg tool."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.differential.cells import Draw, NotMadeError

#: Height and width.
SHAPE = (48, 64)
_BITS = 8  # of a number, in two rows of blocks


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture, as a reader gave it, and its time in ticks of the stream."""

    pts: int
    picture: NDArray[np.uint8]

    @property
    def number(self) -> int:
        """The number that the picture carries."""
        height, width = SHAPE[0] // 2, SHAPE[1] * 2 // _BITS
        blocks = self.picture.reshape(2, height, _BITS // 2, width).transpose(0, 2, 1, 3)
        bits = blocks[:, :, 4:-4, 4:-4].mean(axis=(2, 3)).reshape(-1) > 120
        return int(bits @ (1 << np.arange(_BITS)))


def numbered_pictures(count: int, seed: int) -> NDArray[np.uint8]:
    """Gray pictures: two rows of dark and bright blocks, the bits of the number, and a texture that moves."""
    numbers = np.arange(count)
    bits = (numbers[:, None] >> np.arange(_BITS)) & 1
    height, width = SHAPE
    blocks = bits.reshape(count, 2, _BITS // 2).repeat(height // 2, axis=1).repeat(width * 2 // _BITS, axis=2)
    rows, columns = np.mgrid[:height, :width]
    texture = 12 * np.sin((columns + rows + 3 * numbers[:, None, None] + seed) / 5)
    noise = np.random.default_rng(seed).normal(0, 3, (count, height, width))
    levels: NDArray[np.float64] = np.clip(60 + 130 * blocks + texture + noise, 0, 255)
    return levels.astype(np.uint8)


def run_ffmpeg(draw: Draw, arguments: Sequence[str], stdin: bytes = b"") -> None:
    """Run the ffmpeg tool and note the command.

    Raises:
        NotMadeError: It failed, such as for an encoder that it does not have.
    """
    draw.note("ffmpeg " + " ".join(arguments))
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, cwd=draw.folder)
    if done.returncode != 0:
        raise NotMadeError(f"ffmpeg {' '.join(arguments)}: {done.stderr.decode(errors='replace')[-300:]}")


def encode(draw: Draw, path: Path, rate: str, count: int, options: Sequence[str], *, passes: int = 1) -> None:
    """Encode ``count`` numbered pictures."""
    height, width = SHAPE
    raw = numbered_pictures(count, draw.random.randrange(1000)).tobytes()
    source = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
    for number in range(1, passes + 1):
        of_pass = ["-pass", str(number), "-passlogfile", "log"] if passes > 1 else []
        target = [path.name] if number == passes else ["-f", "null", "-"]
        run_ffmpeg(draw, [*source, *options, *of_pass, *target], raw)
