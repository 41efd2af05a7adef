#!/usr/bin/env bash
# webdataset 1.0.2 with Pillow 13.0.0: decoding a gray PNG of 16 bits clips all levels above 255 to white.
#
# Guess: "rgb8", "l8" or "pil" scale 16 bits to 8 (keep the upper byte), and the float modes scale 65535 to 1.0.
# Seen: levels 0 to 255 of 65535 fill the whole range and everything above is white, without a word: a depth map or an X-ray
# becomes nearly white. Pillow's `convert` does the clipping; the decoders of webdataset call it for all modes.
# OpenCV keeps the upper byte of each value where 8 bits are asked for.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install webdataset==1.0.2 pillow==13.0.0 numpy opencv-python-headless==5.0.0.93
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import io, sys
from importlib.metadata import version
import cv2, numpy, PIL
from PIL import Image
from webdataset.autodecode import imagehandler

levels = numpy.array([[0, 100, 255, 256, 1000, 30000, 65535]], numpy.uint16)
file = io.BytesIO()
Image.fromarray(levels).save(file, "PNG")
print("webdataset", version("webdataset"), "Pillow", PIL.__version__, "OpenCV", cv2.__version__)
print("levels     ", levels[0].tolist())
seen = {}
for mode in ("pil", "rgb8", "l8", "rgb"):
    values = numpy.array(imagehandler(mode)("x.png", file.getvalue()))
    seen[mode] = values.reshape(1, 7, -1)[0, :, 0].tolist()
    print(f"{mode:11} {seen[mode]}")
opencv = cv2.imdecode(numpy.frombuffer(file.getvalue(), numpy.uint8), cv2.IMREAD_GRAYSCALE)[0].tolist()
print(f"{'OpenCV':11} {opencv}")
clipped = [0, 100, 255, 255, 255, 255, 255]
ok = seen["pil"] == seen["rgb8"] == seen["l8"] == clipped and seen["rgb"][3:] == [1.0] * 4 and opencv[3:6] == [1, 3, 117]
sys.exit(0 if ok else "changed")
PYTHON
