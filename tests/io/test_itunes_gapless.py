"""AAC as iTunes tags it: a freeform atom says how much delay and padding there is."""

import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import run_ffmpeg

DELAY = 1024  # of FFmpeg's encoder
RATE = 44100


def atom(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I", 8 + len(content)) + kind + content


def gapless(delay: int, padding: int, count: int) -> bytes:
    """User data with the tag, as iTunes lays it out."""
    numbers = f" 00000000 {delay:08X} {padding:08X} {count:016X}" + " 00000000" * 8
    tag = atom(
        b"----",
        atom(b"mean", bytes(4), b"com.apple.iTunes"),
        atom(b"name", bytes(4), b"iTunSMPB"),
        atom(b"data", struct.pack(">II", 1, 0), numbers.encode()),
    )
    handler = atom(b"hdlr", bytes(8), b"mdirappl", bytes(10))
    return atom(b"udta", atom(b"meta", bytes(4), handler, atom(b"ilst", tag)))


def sound(num_samples: int, channels: int) -> NDArray[np.int16]:
    times = np.arange(num_samples) / RATE
    rows = [0.3 * np.sin(2 * np.pi * (300 + 150 * k + 900 * times) * times) for k in range(channels)]
    return (np.asarray(rows) * 32767).astype(np.int16)


def tagged(tmp_path: Any, samples: NDArray[np.int16], *options: str) -> bytes:
    """AAC in M4A with that tag, and without an edit list unless options say so."""
    path = tmp_path / "plain.m4a"
    source = ("-f", "s16le", "-ar", str(RATE), "-ac", str(len(samples)), "-i", "-")
    run_ffmpeg(*source, "-c:a", "aac", "-b:a", "128k", "-aac_pns", "0", *options, "-fflags", "+bitexact",
               "-map_metadata", "-1", path, stdin=samples.T.tobytes())  # fmt: skip
    data: bytes = path.read_bytes()
    at = 0
    while data[at + 4 : at + 8] != b"moov":
        at += struct.unpack_from(">I", data, at)[0]
    size = struct.unpack_from(">I", data, at)[0]
    assert at + size == len(data)  # it is the last one
    moov = data[at + 8 : data.index(b"udta") - 4]  # which is the last one in there
    count = samples.shape[1]
    user = gapless(DELAY, -(count + DELAY) % 1024, count)
    return data[:at] + atom(b"moov", moov, user)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("num_samples", [3000, 20_480 - DELAY, 20_011])
@pytest.mark.parametrize("options", [("-use_editlist", "0"), ("-use_editlist", "1")], ids=["tag", "tag and edit list"])
def test_the_whole_is_what_was_encoded(
    tmp_path: Any, num_samples: int, channels: int, options: tuple[str, ...]
) -> None:
    """As many samples, at their places; windows are slices of it, and batches draw from it."""
    samples = sound(num_samples, channels)
    data = tagged(tmp_path, samples, *options)
    whole = spdl.io.to_numpy(spdl.io.load_audio(data))
    assert whole.shape == samples.shape
    expected = samples / 32768
    middle = slice(num_samples // 4, num_samples * 3 // 4)
    errors = [np.square(np.roll(whole, by, axis=1) - expected)[:, middle].mean() for by in (0, -2, -1, 1, 2)]
    assert min(errors) == errors[0]
    assert errors[0] < 1e-3
    for start, end in ((0.0, 0.01), (0.02, 0.05), (0.03, 9.0)):
        part = spdl.io.to_numpy(spdl.io.load_audio(data, (start, end)))
        np.testing.assert_array_equal(part, whole[:, int(np.ceil(start * RATE)) : int(np.ceil(end * RATE))])
    batch = spdl.io.load_audio_batch([data], num_samples=num_samples, sample_rate=RATE, num_channels=channels, seed=1)
    np.testing.assert_allclose(spdl.io.to_numpy(batch)[0], whole, atol=1e-6)


def test_a_tag_that_does_not_fit_is_not_believed(tmp_path: Any) -> None:
    """One that states more samples than there are, or none."""
    samples = sound(5000, 1)
    data = tagged(tmp_path, samples, "-use_editlist", "0")
    at = data.index(b"iTunSMPB")
    for count in (0, 10**9):
        wrong = data[:at] + data[at:].replace(b"%016X" % 5000, b"%016X" % count)
        whole = spdl.io.to_numpy(spdl.io.load_audio(wrong))
        assert 5000 <= whole.shape[1] <= 5000 + 2048
