"""Makes the JPEGs that Pillow cannot write, with the cjpeg tool of libjpeg-turbo, from a picture that Pillow draws.

Usage: python -m tests.golden.make_jpegs (last made with cjpeg of libjpeg-turbo 2.1.5)
"""

import io
import subprocess
from pathlib import Path

from tests.io.pictures import draw

HERE = Path(__file__).parent
# Sampling is given for luma and then, where that is not 1x1, for chroma: horizontal times vertical.
FILES = {
    "411": ["-sample", "4x1"],
    "440": ["-sample", "1x2"],
    "410": ["-sample", "4x2"],
    "chroma_finer": ["-sample", "1x1,2x2,2x2"],
    "chroma_uneven": ["-sample", "2x2,2x1,1x2"],
    "thirds": ["-sample", "3x1,1x1,1x1"],
    "arithmetic": ["-arithmetic"],
    "separate_scans": ["-scans", str(HERE / "separate_scans.txt")],  # a sequential scan for each component
}


def main() -> None:
    stream = io.BytesIO()
    draw(147, 101).save(stream, "PPM")
    for name, options in FILES.items():
        command = ["cjpeg", "-quality", "90", *options]
        done = subprocess.run(command, input=stream.getvalue(), capture_output=True, check=True)
        (HERE / f"{name}.jpg").write_bytes(done.stdout)


if __name__ == "__main__":
    main()
