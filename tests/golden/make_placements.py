"""Makes placements.json: where FFmpeg puts pictures of many sizes on canvases of many sizes.

A white picture of each size goes through the filters that ``spdl.io.get_video_filter_desc`` describes; what comes out
white is where the picture is. Usage: python tests/golden/make_placements.py > tests/golden/placements.json
"""

import json
import random
import subprocess
import sys

import numpy as np


def placement(width: int, height: int, canvas_width: int, canvas_height: int) -> tuple[int, int, int, int]:
    """Left, top, width, height of the picture."""
    filters = (
        f"format=yuvj420p,scale=w={canvas_width}:h={canvas_height}:flags=bicubic:force_original_aspect_ratio=decrease,"
        f"pad=w={canvas_width}:h={canvas_height}:x=-1:y=-1:color=black,format=pix_fmts=rgb24"
    )
    source = ["-f", "lavfi", "-i", f"color=white:size={width}x{height},format=rgb24"]
    done = subprocess.run(
        ["ffmpeg", "-v", "error", *source, "-vf", filters, "-frames:v", "1", "-f", "rawvideo", "-"],
        capture_output=True,
        check=True,
    )
    pixels = np.frombuffer(done.stdout, np.uint8).reshape(canvas_height, canvas_width, 3)
    if pixels.max() <= 128:
        raise ValueError("the picture came out black")
    ys, xs = np.nonzero(pixels.max(axis=2) > 128)
    return int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1


def main() -> None:
    rng = random.Random(0)
    canvases = [(224, 224), (225, 225), (224, 168), (97, 31), (31, 97), (1, 1), (2, 2), (256, 1), (64, 64)]
    sizes = [(500, 375), (375, 500), (500, 333), (333, 500), (500, 500), (1, 1), (2, 3), (224, 224), (640, 427)]
    cases = [(width, height, *canvas) for width, height in sizes for canvas in canvases]
    cases += [(rng.randint(1, 700), rng.randint(1, 700), rng.randint(1, 300), rng.randint(1, 300)) for _ in range(200)]
    placements = []
    for case in cases:
        width, height, canvas_width, canvas_height = case
        if 2 * canvas_height * width < height or 2 * canvas_width * height < width:
            continue  # a side rounds to nothing, which FFmpeg refuses or takes for "as it was": nothing to agree on
        try:
            placements.append([*case, *placement(*case)])
        except (subprocess.CalledProcessError, ValueError) as error:
            # Too short for swscale: there is no answer to compare with.
            print(case, getattr(error, "stderr", error), file=sys.stderr)
    version = subprocess.run(["ffmpeg", "-version"], capture_output=True, check=True, text=True).stdout.splitlines()[0]
    rows = ",\n".join(f"  {json.dumps(row)}" for row in placements)
    columns = ["width", "height", "canvas_width", "canvas_height", "left", "top", "fitted_width", "fitted_height"]
    print(f'{{\n "made_by": {json.dumps(version)},\n "columns": {json.dumps(columns)},\n "rows": [\n{rows}\n ]\n}}')


if __name__ == "__main__":
    main()
