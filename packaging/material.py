"""Media for the tests of wheels, made by the ffmpeg tool, with its decoded results.

Usage: material.py FOLDER
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PICTURES = ("-f", "lavfi", "-i", "testsrc2=size=160x120:rate=25:duration=1,format=yuv420p")
SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration=1,aformat=channel_layouts=stereo")

# Files, and the encoders' options. Pictures are compared to the byte, in the decoder's own format.
VIDEOS = {
    "h264.mp4": ("-c:v", "libx264"),
    "hevc.mp4": ("-c:v", "libx265", "-x265-params", "log-level=none"),
    "vp8.webm": ("-c:v", "libvpx"),
    "vp9.webm": ("-c:v", "libvpx-vp9", "-cpu-used", "8"),
    "av1.mp4": ("-c:v", "libaom-av1", "-cpu-used", "8", "-crf", "40", "-g", "30"),
    "mpeg1.mpg": ("-c:v", "mpeg1video"),
    "mpeg2.ts": ("-c:v", "mpeg2video"),
    "mpeg4.avi": ("-c:v", "mpeg4"),
    "mjpeg.mkv": ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p"),
    "prores.mov": ("-c:v", "prores_ks"),
}
SOUNDS = {
    "aac.m4a": ("-c:a", "aac"),
    "mp3.mp3": ("-c:a", "libmp3lame"),
    "opus.ogg": ("-c:a", "libopus"),
    "vorbis.ogg": ("-c:a", "libvorbis"),
    "flac.flac": ("-c:a", "flac"),
    "alac.m4a": ("-c:a", "alac"),
    "pcm.wav": ("-c:a", "pcm_s16le"),
}
STILLS = {
    "picture.png": (),
    "picture.webp": (),
    "picture.gif": (),
    "picture.tiff": ("-pix_fmt", "rgb24"),
    "picture.bmp": (),
    "picture.jpg": (),
}


def _ffmpeg(*words: str) -> bytes:
    return subprocess.run(["ffmpeg", "-v", "error", "-y", *words], check=True, capture_output=True).stdout


def _make(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {"videos": {}, "sounds": {}, "stills": {}}
    for name, options in VIDEOS.items():
        path = str(folder / name)
        _ffmpeg(*PICTURES, *options, "-fflags", "+bitexact", path)
        decoded = _ffmpeg("-i", path, "-fps_mode", "passthrough", "-f", "rawvideo", "-")
        facts["videos"][name] = {"sha256": hashlib.sha256(decoded).hexdigest(), "num_bytes": len(decoded)}
    for name, options in SOUNDS.items():
        path = str(folder / name)
        _ffmpeg(*SOUND, *options, "-fflags", "+bitexact", path)
        decoded = _ffmpeg("-i", path, "-f", "f32le", "-")
        (folder / f"{name}.f32").write_bytes(decoded)
        facts["sounds"][name] = {"num_channels": 2}
    for name, options in STILLS.items():
        _ffmpeg(*PICTURES, *options, "-frames:v", "1", "-update", "1", str(folder / name))
        decoded = _ffmpeg("-i", str(folder / name), "-f", "rawvideo", "-pix_fmt", "rgb24", "-frames:v", "1", "-")
        (folder / f"{name}.rgb").write_bytes(decoded)
        facts["stills"][name] = {"height": 120, "width": 160}
    return facts


def main() -> None:
    """Make all files."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    (folder / "facts.json").write_text(json.dumps(_make(folder), indent=1))


if __name__ == "__main__":
    main()
