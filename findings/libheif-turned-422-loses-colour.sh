#!/usr/bin/env bash
# pillow-heif 1.8.1 (libheif 1.23.6): a HEIC of 4:2:2 that is turned by a quarter is not the turned picture.
#
# Guess: a quarter turn (`irot`) only moves pixels, so decoding a turned file gives what decoding it without the turn and turning
# the array gives, for every chroma format.
# Seen: so it is for 4:4:4 and 4:2:0, for half turns and for mirrors. With 4:2:2, the planes are turned before they become RGB, and
# half of the colour is lost on the way: the same coded picture differs by 7 levels on average and by 40 and more in places.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install pillow-heif==1.8.1 pillow==13.0.0 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import io, sys
import numpy, pillow_heif
from PIL import Image

small = numpy.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=numpy.uint8)
picture = Image.fromarray(small).resize((96, 64), Image.Resampling.BICUBIC)


def decoded(data):
    return numpy.array(pillow_heif.open_heif(io.BytesIO(data)).to_pillow()).astype(int)


print("pillow-heif", pillow_heif.__version__, "libheif", pillow_heif.libheif_version())
seen = {}
for chroma in (444, 420, 422):
    for name, orientation, turns in (("quarter turn", 8, 1), ("half turn", 3, 2)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = io.BytesIO()
        pillow_heif.from_pillow(picture).save(file, quality=95, chroma=chroma, exif=exif.tobytes())
        data = file.getvalue()
        assert data.count(b"irot") == 1
        turned = decoded(data)
        alone = decoded(data.replace(b"irot", b"free"))  # the same coded picture, without the property
        difference = numpy.abs(turned - numpy.rot90(alone, turns))
        seen[chroma, name] = difference.max(), difference.mean()
        print(f"{chroma} {name:13} most {difference.max():3}, mean {difference.mean():.2f} levels")
most, mean = seen.pop((422, "quarter turn"))
sys.exit(0 if most > 30 and mean > 4 and not any(worst for worst, _ in seen.values()) else "changed")
PYTHON
