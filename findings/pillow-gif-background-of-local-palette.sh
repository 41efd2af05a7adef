#!/usr/bin/env bash
# Pillow 13.0.0: around a GIF frame that does not fill the screen, the background has the first colour of the frame's own palette.
#
# Guess: the background colour index points into the global colour table, as the GIF89a specification says, so the uncovered
# part has that colour (or is transparent, as browsers show it).
# Seen: it has the first colour of the frame's own table: with background 1, which is red in the global table, the edges are
# the colour 0 of the local table, nearly black. FFmpeg 9.0 fills them with red.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pillow==13.0.0 imageio-ffmpeg==0.8.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import struct, subprocess, sys
import imageio_ffmpeg, PIL
from PIL import Image

RED, LIGHT, LIGHTER = (255, 0, 0), (200, 200, 200), (240, 240, 240)
FIRST = (10, 10, 10)


def table(*colours):
    return bytes(value for colour in colours for value in colour)


def unpacked(levels):  # LZW of 2 bits, the dictionary cleared (4) before each level, 5 at the end
    number = position = 0
    for code in [each for level in levels for each in (4, level)] + [5]:
        number |= code << position
        position += 3
    data = number.to_bytes((position + 7) // 8, "little")
    return bytes([2, len(data)]) + data + b"\0"


with open("a.gif", "wb") as file:
    file.write(b"GIF89a" + struct.pack("<HHBBB", 4, 1, 0x81, 1, 0) + table((0, 0, 0), RED, (0, 255, 0), (0, 0, 255)))
    frame = struct.pack("<HHHHB", 1, 0, 2, 1, 0x81) + table(FIRST, (20, 20, 20), LIGHT, LIGHTER)
    file.write(b"," + frame + unpacked([2, 3]) + b";")

pillow = [Image.open("a.gif").convert("RGB").getpixel((x, 0)) for x in range(4)]
raw = subprocess.run(
    [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", "a.gif", "-f", "rawvideo", "-pix_fmt", "rgba", "-"],
    stdout=subprocess.PIPE,
    check=True,
).stdout
ffmpeg = [tuple(raw[x : x + 3]) for x in range(0, 16, 4)]
print("Pillow", PIL.__version__, pillow)
print("imageio-ffmpeg", imageio_ffmpeg.__version__, ffmpeg)
middle = [LIGHT, LIGHTER]
expected = pillow[1:3] == ffmpeg[1:3] == middle and ffmpeg[0] == ffmpeg[3] == RED and pillow[0] == pillow[3] == FIRST
sys.exit(0 if expected else "changed")
PYTHON
