#!/usr/bin/env bash
# tifffile 2026.3.3 with imagecodecs 2026.3.6: a big-endian TIFF of 12 bits a sample does not survive its own round trip.
#
# Guess: byteorder=">" is a matter of the header; what imwrite packs, imread unpacks.
# Seen: with "<" the values come back, with ">" others do, in the right shape and dtype, without an error or a warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install tifffile==2026.3.3 imagecodecs==2026.3.6 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import io, sys, warnings
warnings.simplefilter("error")
import imagecodecs, numpy, tifffile

print("tifffile", tifffile.__version__, "imagecodecs", imagecodecs.__version__)
picture = (numpy.arange(64, dtype=numpy.uint16) * 60).reshape(8, 8)
same = {}
for order in "<>":
    file = io.BytesIO()
    tifffile.imwrite(file, picture, bitspersample=12, byteorder=order, photometric="minisblack")
    read = tifffile.imread(io.BytesIO(file.getvalue()))
    same[order] = bool(numpy.array_equal(read, picture))
    print(order, read.dtype, read.shape, "written", picture[0, :4], "read", read[0, :4])
sys.exit(0 if same == {"<": True, ">": False} else "changed")
PYTHON
