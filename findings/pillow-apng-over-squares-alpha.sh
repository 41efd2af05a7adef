#!/usr/bin/env bash
# Pillow 13.0.0: a half-transparent APNG frame that is blended "over" nothing becomes a quarter opaque.
#
# Guess: APNG_BLEND_OP_OVER is alpha compositing as the PNG specification writes it, so that colour over a clear canvas keeps
# its own alpha: 128 stays 128.
# Seen: Pillow pastes the frame with its alpha as the mask, alpha included, so alpha is multiplied by itself (128 gives 64) and
# colours darken towards the clear canvas. FFmpeg 9.0 keeps 128.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pillow==13.0.0 imageio-ffmpeg==0.8.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import struct, subprocess, sys, zlib
import imageio_ffmpeg, PIL
from PIL import Image


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pixels(colour):
    return zlib.compress((b"\0" + bytes(colour) * 8) * 8)


def control(number, blend):  # 8x8 at (0, 0), 1/10 s, left in place, blended
    return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 8, 8, 0, 0, 1, 10, 0, blend))


with open("a.png", "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 6, 0, 0, 0)))
    file.write(chunk(b"acTL", struct.pack(">II", 2, 0)) + control(0, 0) + chunk(b"IDAT", pixels((0, 0, 0, 0))))
    file.write(control(1, 1) + chunk(b"fdAT", struct.pack(">I", 2) + pixels((200, 100, 50, 128))) + chunk(b"IEND", b""))

picture = Image.open("a.png")
picture.seek(1)
pillow = picture.convert("RGBA").getpixel((4, 4))
raw = subprocess.run(
    [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", "a.png", "-f", "rawvideo", "-pix_fmt", "rgba", "-"],
    stdout=subprocess.PIPE,
    check=True,
).stdout
ffmpeg = tuple(raw[-4:])
print("Pillow", PIL.__version__, "imageio-ffmpeg", imageio_ffmpeg.__version__)
print(f"frame (200, 100, 50, 128) over nothing: Pillow {pillow}, FFmpeg {ffmpeg}")
sys.exit(0 if pillow[3] == 64 and ffmpeg == (200, 100, 50, 128) else "changed")
PYTHON
