#!/usr/bin/env bash
# Pillow 13.0.0 and opencv-python-headless 5.0.0: whether an orientation tag turns the pixels depends on the file format.
#
# Guess: Pillow gives pixels as stored until `exif_transpose`; OpenCV turns them in `imread` and, as its manual says, keeps
# them as stored with IMREAD_UNCHANGED.
# Seen: true for JPEG, PNG and WebP. A TIFF is turned by Pillow when it is loaded (then the tag is gone), and by OpenCV
# even with IMREAD_UNCHANGED. An AVIF with the tag is turned by OpenCV with no flag at all. A data set of mixed formats has
# pictures on their side in either library, with one setting for all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pillow==13.0.0 opencv-python-headless==5.0.0.93 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import io, sys
import cv2, numpy, PIL
from PIL import Image

stored = numpy.zeros((8, 16, 3), numpy.uint8)
stored[:, :4] = 255
exif = Image.Exif()
exif[0x112] = 6  # turned by 90 degrees: 16 rows of 8 when shown
seen = {}
for name in ("JPEG", "PNG", "WEBP", "TIFF", "AVIF"):
    file = io.BytesIO()
    Image.fromarray(stored).save(file, name, exif=exif)
    data = numpy.frombuffer(file.getvalue(), numpy.uint8)
    arrays = numpy.array(Image.open(file)), cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    seen[name] = tuple("turned" if array.shape[:2] == (16, 8) else "stored" for array in arrays)
print("Pillow", PIL.__version__, "OpenCV", cv2.__version__)
print(f"{'':5} {'Image.open':12} {'IMREAD_COLOR':13} IMREAD_UNCHANGED")
for name, (pillow, color, unchanged) in seen.items():
    print(f"{name:5} {pillow:12} {color:13} {unchanged}")
usual = ("stored", "turned", "stored")
want = {"JPEG": usual, "PNG": usual, "WEBP": usual, "TIFF": ("turned",) * 3, "AVIF": ("stored",) * 3}
sys.exit(0 if seen == want else "changed")
PYTHON
