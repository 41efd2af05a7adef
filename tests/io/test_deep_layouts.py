"""Pictures of more than 8 bits and with alpha as arrays, compared with what the ffmpeg tool writes."""

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, ffmpeg_command, output_about, pictures

_UINT8 = {
    "bgra": (48, 64, 4), "argb": (48, 64, 4), "abgr": (48, 64, 4), "ya8": (48, 64, 2), "gbrap": (4, 48, 64),
    "yuva444p": (4, 48, 64), "yuva422p": (1, 144, 64), "yuva420p": (1, 120, 64),
}  # fmt: skip
_UINT16 = {
    "rgba64le": (48, 64, 4), "rgba64be": (48, 64, 4), "gbrp10le": (3, 48, 64), "gray10le": (1, 48, 64),
    "gray10be": (1, 48, 64), "gray12le": (1, 48, 64), "yuv444p10le": (3, 48, 64), "yuv444p12be": (3, 48, 64),
    "yuv422p10le": (1, 96, 64), "yuv422p12le": (1, 96, 64), "yuv420p10le": (1, 72, 64), "yuv420p10be": (1, 72, 64),
    "yuv420p12le": (1, 72, 64), "p010le": (1, 72, 64), "p010be": (1, 72, 64), "p016le": (1, 72, 64),
    "gbrp12le": (3, 48, 64), "gbrp16be": (3, 48, 64), "gbrap10le": (4, 48, 64), "gbrap12be": (4, 48, 64),
    "gbrap16le": (4, 48, 64), "yuv444p16le": (3, 48, 64), "yuv422p16le": (1, 96, 64), "yuv420p16be": (1, 72, 64),
    "yuva444p10le": (4, 48, 64), "yuva444p12le": (4, 48, 64), "yuva444p16be": (4, 48, 64),
    "yuva422p10le": (1, 144, 64), "yuva422p12be": (1, 144, 64), "yuva422p16le": (1, 144, 64),
    "yuva420p10le": (1, 120, 64), "yuva420p16le": (1, 120, 64), "ya16le": (48, 64, 2), "ya16be": (48, 64, 2),
}  # fmt: skip


@pytest.mark.parametrize("pix_fmt", [*_UINT8, *_UINT16])
def test_the_array_has_the_samples_of_the_format(pix_fmt: str) -> None:
    """In the order in which the tool writes raw video: plane after plane, and in the byte order of this machine."""
    path = clip("noise.mkv", *pictures(duration=0.08), "-c:v", "ffv1", "-pix_fmt", "yuva444p")
    command = ffmpeg_command("-i", path, "-f", "rawvideo", "-pix_fmt", pix_fmt, "-")
    raw = output_about(path, command)
    array = spdl.io.to_numpy(spdl.io.load_video(path, filter_desc=f"format=pix_fmts={pix_fmt}"))
    is_deep = pix_fmt in _UINT16
    assert array.dtype == ("uint16" if is_deep else "uint8")
    assert array.shape == (2, *({**_UINT8, **_UINT16}[pix_fmt]))
    stored = np.frombuffer(raw, (">u2" if pix_fmt.endswith("be") else "<u2") if is_deep else "u1")
    assert np.array_equal(array, stored.reshape(array.shape))


def test_a_video_of_ten_bits_is_an_array_as_it_is() -> None:
    """Without a filter, the decoder's own samples."""
    path = clip("ten.mkv", *pictures(duration=0.08), "-c:v", "ffv1", "-pix_fmt", "yuv420p10le")
    array = spdl.io.to_numpy(spdl.io.load_video(path, filter_desc=None))
    assert array.dtype == np.uint16
    assert array.shape == (2, 1, 72, 64)
    assert array.max() > 255


def test_alpha_of_ten_bits_is_an_array_as_it_is() -> None:
    """ProRes 4444, without a filter: what the tool writes for the decoder's own format."""
    path = clip(
        "alpha.mov", *pictures(duration=0.08), "-c:v", "prores_ks", "-profile:v", "4444", "-pix_fmt", "yuva444p10le"
    )
    array = spdl.io.to_numpy(spdl.io.load_video(path, filter_desc=None))
    assert array.dtype == np.uint16
    assert array.shape == (2, 4, 48, 64)
    stream = spdl.io.probe(path).video
    assert stream is not None
    raw = output_about(path, ffmpeg_command("-i", path, "-f", "rawvideo", "-pix_fmt", str(stream.pix_fmt), "-"))
    assert np.array_equal(array, np.frombuffer(raw, "<u2").reshape(array.shape))
