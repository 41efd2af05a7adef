"""Clips like those of a camera that moves over photographs, with sensor noise. Made once, and kept."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.make_photos import find_photographs

FRAME_RATE = 25


@dataclass(frozen=True, slots=True)
class Clip:
    """Shots of ten seconds at most, each of another photograph, with a key frame every two seconds by default."""

    width: int
    height: int
    seconds: int
    gop: int = 2 * FRAME_RATE
    suffix: str = "mp4"

    def make(self, folder: Path) -> Path:
        """Its path.

        Raises:
            FileNotFoundError: There are no photographs to make it from, or no ffmpeg tool.
            subprocess.CalledProcessError: The tool failed; it has printed the reason.
        """
        gop = "" if self.gop == 2 * FRAME_RATE else f"-gop{self.gop}"
        path = folder / f"{self.width}x{self.height}-{self.seconds}s{gop}.{self.suffix}"
        if path.exists():
            return path
        photographs = find_photographs()
        if not photographs:
            raise FileNotFoundError(
                "no photographs: install Debian's lomiri-wallpapers-16.04, or scikit-image with pip"
            )
        print(f"making {path.name} ...", file=sys.stderr, flush=True)
        shots = [min(10, self.seconds - start) for start in range(0, self.seconds, 10)]
        inputs: list[str] = []
        chains = []
        for number, seconds in enumerate(shots):
            inputs += ["-i", str(photographs[number % len(photographs)])]
            chains.append(f"[{number}:v]{self._camera(seconds * FRAME_RATE)}[shot{number}]")
        joined = "".join(f"[shot{number}]" for number in range(len(shots)))
        graph = ";".join(
            [*chains, f"{joined}concat=n={len(shots)},noise=alls=5:allf=t:all_seed=1,format=yuv420p[video]"]
        )
        unfinished = path.with_name("unfinished-" + path.name)
        command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *inputs, "-filter_complex", graph, "-map", "[video]"]
        if self.suffix == "webm":
            command += ["-c:v", "libvpx-vp9", "-b:v", "0", "-crf", "32", "-deadline", "good", "-cpu-used", "5"]
        else:
            command += ["-c:v", "libx264", "-preset", "medium", "-crf", "23", "-bf", "3"]
        command += ["-g", str(self.gop)]
        subprocess.run([*command, "-bitexact", str(unfinished)], check=True)
        unfinished.rename(path)
        return path

    def _camera(self, num_frames: int) -> str:
        wide, high = 2 * self.width, 2 * self.height
        return (
            f"scale={wide}:{high}:force_original_aspect_ratio=increase,crop={wide}:{high},"
            f"zoompan=z='1+0.3*on/{num_frames}':x='(iw-iw/zoom)*on/{num_frames}':y='(ih-ih/zoom)/2'"
            f":d={num_frames}:s={self.width}x{self.height}:fps={FRAME_RATE},setsar=1"
        )
