#!/usr/bin/env bash
# opencv-python-headless 5.0.0: imwrite to .pam stores blue first, and names no tuple type.
#
# Guess: colours are swapped to RGB when a file is written, as for PNG, PPM and all other formats of OpenCV.
# Seen: a red picture (BGR 0, 0, 255) is written as the bytes 0, 0, 255, which Netpbm's page on PAM reads as blue for three
# planes. OpenCV reads them back as red, so a round trip does not show it; the header has no TUPLTYPE. The PPM of the same
# call has 255, 0, 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install opencv-python-headless==5.0.0.93 numpy
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import pathlib, sys
import cv2, numpy

red = numpy.zeros((2, 3, 3), numpy.uint8)
red[..., 2] = 255
for name in ("red.pam", "red.ppm"):
    assert cv2.imwrite(name, red)
pam, ppm = (pathlib.Path(name).read_bytes() for name in ("red.pam", "red.ppm"))
print("OpenCV", cv2.__version__)
print("header:", pam[:-18], "| first pixel of the PAM:", list(pam[-18:-15]), "of the PPM:", list(ppm[-18:-15]))
print("read again by OpenCV (BGR):", cv2.imread("red.pam")[0, 0])
seen = (list(pam[-18:-15]), list(ppm[-18:-15]), b"TUPLTYPE" in pam, cv2.imread("red.pam")[0, 0].tolist())
sys.exit(0 if seen == ([0, 0, 255], [255, 0, 0], False, [0, 0, 255]) else "changed")
PYTHON
