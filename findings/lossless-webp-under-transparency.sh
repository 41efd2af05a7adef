#!/usr/bin/env bash
# Pillow 13.0.0 and opencv-python-headless 5.0.0: a lossless WebP is not lossless where alpha is 0.
#
# Guess: `lossless=True` (OpenCV: a quality above 100) keeps every value, as it does for PNG, so it is fit for masks and
# for arrays of four channels that are no picture.
# Seen: all colours under alpha 0 come back changed, since libwebp is left to rewrite what is invisible; the pixels beside
# them are exact. Pillow needs `exact=True` too, OpenCV has no such switch, imagecodecs 2026.3.6 keeps all values by itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pillow==13.0.0 opencv-python-headless==5.0.0.93 imagecodecs==2026.3.6 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import io, sys
import cv2, imagecodecs, numpy, PIL
from PIL import Image

picture = numpy.random.default_rng(0).integers(0, 256, (32, 32, 4), dtype=numpy.uint8)
picture[..., 3] = 255
picture[:16, :, 3] = 0


def pillow(**options):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "WEBP", lossless=True, **options)
    return numpy.array(Image.open(io.BytesIO(file.getvalue())))


read = {
    "Pillow, lossless": pillow(),
    "Pillow, lossless and exact": pillow(exact=True),
    "OpenCV, quality 101": cv2.imdecode(cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, 101])[1], cv2.IMREAD_UNCHANGED),
    "imagecodecs, lossless": imagecodecs.webp_decode(imagecodecs.webp_encode(picture, lossless=True)),
}
print("Pillow", PIL.__version__, "OpenCV", cv2.__version__, "imagecodecs", imagecodecs.__version__)
exact = {}
for name, values in read.items():
    exact[name] = (bool((values[:16] == picture[:16]).all()), bool((values[16:] == picture[16:]).all()))
    print(f"{name:27} exact under alpha 0: {exact[name][0]}, elsewhere: {exact[name][1]}")
want = [(False, True), (True, True), (False, True), (True, True)]
sys.exit(0 if list(exact.values()) == want else "changed")
PYTHON
