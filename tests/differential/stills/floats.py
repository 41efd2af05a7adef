"""OpenEXR and Radiance HDR: floating point is an array, and refused where it would have to become 8 bits."""

import subprocess

import numpy as np
import pytest

import spdl.io
from tests.differential.cells import Draw, NotMadeError, law
from tests.differential.stills.loading import check_refused, stored
from tests.differential.stills.pictures import draw_size

_PLANES = {"grayf32le": [0], "gbrpf32le": [1, 2, 0], "gbrapf32le": [1, 2, 0, 3]}


@law("still", "samples are stored ones", [f"EXR/{kind}" for kind in ("half", "float")])
def samples_of_exr_are_what_was_encoded(draw: Draw, form: str) -> None:
    """Gray, RGB and RGBA of either size and every compression that the ffmpeg tool writes."""
    height, width = draw_size(draw)
    pix_fmt, order = draw.random.choice(list(_PLANES.items()))
    rng = np.random.default_rng(draw.random.getrandbits(32))
    values = rng.standard_normal((height, width, len(order))).astype(np.float32) * draw.random.choice([0.3, 100.0])
    kind = form.split("/")[1]
    values = values.astype(np.float16).astype(np.float32) if kind == "half" else values.astype(np.float32)
    path = draw.folder / "picture.exr"
    command = ["ffmpeg", "-v", "error", "-nostdin", "-f", "rawvideo", "-pix_fmt", pix_fmt, "-s", f"{width}x{height}"]
    command += ["-i", "-", "-c:v", "exr", "-format", kind]
    command += ["-compression", draw.random.choice(["none", "rle", "zip1", "zip16"]), str(path)]
    draw.note(command)
    planes = np.ascontiguousarray(np.moveaxis(values, 2, 0)[order]).astype("<f4")
    done = subprocess.run(command, input=planes.tobytes(), capture_output=True, check=False)
    if done.returncode:
        raise NotMadeError(done.stderr.decode())
    for source in (path, path.read_bytes()):
        made = stored(source)
        assert made.dtype == np.float32
        assert np.array_equal(made, values)
    check_refused(path.read_bytes(), "floating point")


@law("still", "read or refused", ["HDR"], "cv2")
def radiance_is_floats_or_refused_by_name(draw: Draw, form: str) -> None:
    """FFmpeg reads it from version 6 on."""
    import cv2

    height, width = draw_size(draw)
    rng = np.random.default_rng(draw.random.getrandbits(32))
    path = draw.folder / "picture.hdr"
    assert cv2.imwrite(str(path), rng.random((height, width, 3)).astype(np.float32))
    judged = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)[..., ::-1]
    draw.note(f"{width}x{height}")
    if spdl.io.utils.get_ffmpeg_versions()["libavcodec"] < (60,):
        with pytest.raises(spdl.io.DecodeError, match="this FFmpeg has no decoder for it"):
            stored(path)
        return
    made = stored(path)
    assert np.allclose(made, judged, rtol=0.01)
    check_refused(path.read_bytes(), "floating point")
