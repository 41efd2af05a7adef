"""Every form of WAV, in ``load_wav`` and ``load_audio``, judged by arithmetic on hand-made files."""

import os
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.wav import chunk, packed, wav


def viewed(data: bytes) -> NDArray[Any]:
    return np.asarray(spdl.io.load_wav(data))


def loaded(data: Any, **options: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.load_audio(data, **options)).T


def expect(data: bytes, expected: NDArray[Any], full_scale: float) -> None:
    """All entry points give these samples: ``load_wav`` unscaled, the others as fractions of ``full_scale``."""
    found = viewed(data)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    scaled = expected.astype(np.float64) / full_scale
    for dtype in ("float64", "float32"):
        np.testing.assert_allclose(loaded(data, dtype=dtype), scaled, rtol=0, atol=1e-7)
    np.testing.assert_allclose(loaded(data), scaled, rtol=0, atol=1e-7)
    batch = spdl.io.load_audio_batch(
        [data], num_samples=len(expected), sample_rate=8000, num_channels=expected.shape[1], start=0.0
    )
    np.testing.assert_allclose(spdl.io.to_numpy(batch)[0].T, scaled, rtol=0, atol=1e-7)


RNG = np.random.default_rng(0)
ORDERS = [("<", b"RIFF"), (">", b"RIFX")]


@pytest.mark.parametrize(("order", "riff"), ORDERS, ids=["RIFF", "RIFX"])
@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("bits", [16, 24, 32])
def test_integers(bits: int, channels: int, order: str, riff: bytes) -> None:
    """24 bits become left-justified integers of 32; big-endian ones come in the machine's byte order."""
    samples = RNG.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 300 * channels)
    data = wav(packed(samples, bits // 8, order), channels=channels, bits=bits, order=order, riff=riff)
    shown = samples << 8 if bits == 24 else samples
    dtype = np.int16 if bits == 16 else np.int32
    expect(data, shown.astype(dtype).reshape(-1, channels), 2.0**15 if bits == 16 else 2.0**31)


@pytest.mark.parametrize(("order", "riff"), ORDERS, ids=["RIFF", "RIFX"])
@pytest.mark.parametrize("bits", [32, 64])
def test_floats(bits: int, order: str, riff: bytes) -> None:
    """Of both sizes and byte orders."""
    samples = RNG.uniform(-1, 1, (300, 2)).astype(f"f{bits // 8}")
    data = wav(samples.astype(order + f"f{bits // 8}").tobytes(), channels=2, bits=bits, code=3, order=order, riff=riff)
    expect(data, samples, 1)


def test_bytes_of_rifx() -> None:
    """They have no order, and are a view."""
    samples = np.arange(200, dtype=np.uint8).reshape(-1, 2)
    data = wav(samples.tobytes(), channels=2, bits=8, order=">", riff=b"RIFX")
    np.testing.assert_array_equal(viewed(data), samples)
    assert not viewed(data).flags.writeable
    np.testing.assert_allclose(loaded(data), (samples.astype(np.float32) - 128) / 128)


@pytest.mark.parametrize(
    ("bits", "valid", "width"), [(32, 24, 4), (32, 20, 4), (24, 20, 3), (16, 12, 2), (32, 32, 4), (24, 24, 3)]
)
@pytest.mark.parametrize(("order", "riff"), ORDERS, ids=["RIFF", "RIFX"])
def test_valid_bits(bits: int, valid: int, width: int, order: str, riff: bytes) -> None:
    """WAVE_FORMAT_EXTENSIBLE: samples are left-justified in their container."""
    samples = RNG.integers(-(2 ** (valid - 1)), 2 ** (valid - 1), 400) << (bits - valid)
    data = wav(packed(samples, width, order), channels=2, bits=bits, valid=valid, mask=3, order=order, riff=riff)
    shown = samples << 8 if width == 3 else samples
    dtype = np.int16 if width == 2 else np.int32
    expect(data, shown.astype(dtype).reshape(-1, 2), 2.0**15 if width == 2 else 2.0**31)
    assert spdl.io.parse_wav(data).audio_format == 0xFFFE


def test_container_is_what_the_block_leaves() -> None:
    """24 bits in blocks of 4 bytes for each channel, without WAVE_FORMAT_EXTENSIBLE; and a block of unknown size."""
    samples = RNG.integers(-(2**23), 2**23, 400) << 8
    data = wav(packed(samples, 4, "<"), channels=2, bits=24, block=8)
    expect(data, samples.astype(np.int32).reshape(-1, 2), 2.0**31)
    small = (samples >> 16).astype(np.int16).reshape(-1, 2)
    expect(wav(small.tobytes(), channels=2, block=0), small, 2.0**15)


def test_block_that_does_not_fit_is_refused() -> None:
    """By both, rather than read at wrong places."""
    data = wav(bytes(600), channels=2, bits=16, block=3)
    with pytest.raises(spdl.io.WAVError, match="should have 4 bytes, and it says 3"):
        spdl.io.load_wav(data)
    with pytest.raises(spdl.io.OpenError, match="16 bits in 2 channels, which does not fit into blocks of 3 bytes"):
        spdl.io.load_audio(data)


SAMPLES = RNG.integers(-30000, 30000, (5000, 2)).astype(np.int16)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFF000, 0x80000000])
@pytest.mark.parametrize("riff_size", [None, 0, 36, 0xFFFFFFFF])
@pytest.mark.parametrize("tail", [b"", b"x"], ids=["whole", "odd"])
def test_streamed_files(size: int, riff_size: int | None, tail: bytes) -> None:
    """Whose writer could not fill in the size: all samples up to the end; half a sample at the end is none."""
    whole = wav(SAMPLES.tobytes(), channels=2, data_size=size, riff_size=riff_size) + tail
    expect(whole, SAMPLES, 2.0**15)


def test_size_of_zero_before_other_chunks_is_no_samples() -> None:
    """What follows is chunks up to the end of the file."""
    data = wav(b"", behind=chunk(b"LIST", b"INFOISFT\4\0\0\0abcd"))
    assert viewed(data).shape == (0, 1)
    with pytest.raises(spdl.io.ConvertError, match="there are no samples"):
        spdl.io.load_audio(data)


@pytest.mark.parametrize("riff", [b"RF64", b"BW64"])
@pytest.mark.parametrize("stated", [SAMPLES.nbytes, 0, 2**64 - 1])
def test_64_bit_sizes(riff: bytes, stated: int) -> None:
    """Also where they were never filled in."""
    ds64 = chunk(b"ds64", struct.pack("<QQQI", 0, stated, 0, 0))
    data = wav(SAMPLES.tobytes(), channels=2, riff=riff, before=ds64, data_size=0xFFFFFFFF, riff_size=0xFFFFFFFF)
    expect(data, SAMPLES, 2.0**15)


@pytest.mark.parametrize("size", [3, 20000, 100_001])
def test_large_chunks_before_the_samples(size: int, tmp_path: Path) -> None:
    """As JUNK and pictures are; from memory and from a file."""
    data = wav(SAMPLES.tobytes(), channels=2, before=chunk(b"JUNK", bytes(size)), behind=chunk(b"LIST", b"INFO"))
    expect(data, SAMPLES, 2.0**15)
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    np.testing.assert_array_equal(loaded(str(path), dtype="int16"), SAMPLES)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 4096, 19_990])
@pytest.mark.parametrize("code", [1, 7], ids=["PCM", "mu-law"])
def test_tolerant_reading_gives_all_whole_samples(cut: int, code: int) -> None:
    """Of a file that ends early; otherwise that is an error."""
    bits = 16 if code == 1 else 8
    data = wav(SAMPLES.tobytes(), channels=2, code=code, bits=bits)
    with pytest.raises(spdl.io.DemuxError, match="the data ends early"):
        spdl.io.load_audio(data[:-cut])
    tolerant = spdl.io.demux_config(tolerate_errors=True)
    whole = loaded(data)
    count = (SAMPLES.nbytes - cut) // (bits // 4)
    np.testing.assert_array_equal(loaded(data[:-cut], demux_config=tolerant), whole[:count])
    packets = spdl.io.demux_audio(data[:-cut], demux_config=tolerant)
    assert packets.num_errors == 1
    if count > 1000:
        np.testing.assert_array_equal(loaded(data[:-cut], timestamp=(0.0, 0.1)), whole[:800])


def test_size_that_is_no_multiple_of_a_sample() -> None:
    """``load_wav`` refuses to divide it; ``load_audio`` gives the whole samples, as other readers do."""
    data = wav(SAMPLES.tobytes() + b"xyz", channels=2)
    np.testing.assert_array_equal(loaded(data, dtype="int16"), SAMPLES)
    with pytest.raises(spdl.io.WAVError, match="not a multiple of 4"):
        spdl.io.load_wav(data)


@pytest.mark.parametrize(("order", "riff"), ORDERS, ids=["RIFF", "RIFX"])
def test_windows_agree(order: str, riff: bytes) -> None:
    """``load_wav``, ``load_audio`` and batches cut at the same samples, in every byte order."""
    data = wav(packed(SAMPLES.reshape(-1).astype(np.int64), 2, order), channels=2, order=order, riff=riff)
    for start, length in ((0.1, 0.0501), (0.00019, 0.3), (1 / 3, 0.1), (0.49999, 0.1), (0.62, 0.1)):
        part = np.asarray(spdl.io.load_wav(data, start, length))
        first, end = int(np.ceil(start * 8000)), min(int(np.ceil((start + length) * 8000)), 5000)
        np.testing.assert_array_equal(part, SAMPLES[first:end])
        np.testing.assert_array_equal(loaded(data, timestamp=(start, start + length), dtype="int16"), part)
        batch = spdl.io.load_audio_batch(
            [data], num_samples=len(part), sample_rate=8000, num_channels=2, start=start, dtype="int16"
        )
        np.testing.assert_array_equal(spdl.io.to_numpy(batch)[0].T, part)


def test_layouts_of_channels() -> None:
    """The mask of WAVE_FORMAT_EXTENSIBLE names them, in both byte orders."""
    for order, riff in ORDERS:
        data = wav(bytes(1200), channels=6, valid=16, mask=0x3F, order=order, riff=riff)
        audio = spdl.io.probe(data).audio
        assert audio is not None
        assert (audio.channel_layout, audio.num_channels, audio.sample_rate) == ("5.1", 6, 8000)
        assert audio.codec == ("pcm_s16le" if order == "<" else "pcm_s16be")
        assert audio.sample_fmt == "s16"
        assert audio.duration == pytest.approx(0.0125)


def test_tags_are_still_read() -> None:
    """By FFmpeg, from the chunks around the samples."""
    info = b"INFO" + chunk(b"INAM", b"a name\0")
    data = wav(SAMPLES.tobytes(), channels=2, valid=16, behind=chunk(b"LIST", info))
    assert spdl.io.probe(data).tags["title"] == "a name"


@pytest.mark.parametrize("form", ["RIFX", "24 in 32", "streamed"])
def test_pipes(form: str, tmp_path: Path) -> None:
    """Read once, from the beginning."""
    samples = SAMPLES.astype(np.int64).reshape(-1)
    if form == "RIFX":
        data = wav(packed(samples, 2, ">"), channels=2, order=">", riff=b"RIFX")
    elif form == "24 in 32":
        data = wav(packed(samples << 16, 4, "<"), channels=2, bits=32, valid=24)
    else:
        data = wav(packed(samples, 2, "<"), channels=2, data_size=0xFFFFFFFF, riff_size=0xFFFFFFFF)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    found = loaded(str(path), dtype="int16")
    writer.join()
    np.testing.assert_array_equal(found, SAMPLES)


def test_streaming_and_seeking() -> None:
    """A demuxer reads parts in any order."""
    samples = SAMPLES.astype(np.int64).reshape(-1)
    data = wav(packed(samples, 3, ">"), channels=2, bits=24, order=">", riff=b"RIFX")
    with spdl.io.Demuxer(data) as demuxer:
        for window in ((0.5, 0.6), (0.0, 0.1), (0.3, 0.31)):
            frames = spdl.io.decode_packets(demuxer.demux_audio(window))
            found = spdl.io.to_numpy(spdl.io.convert_frames(frames)).T
            first, end = round(window[0] * 8000), round(window[1] * 8000)
            np.testing.assert_allclose(found, SAMPLES[first:end] / 2.0**23, rtol=0, atol=1e-9)
        chunks = list(demuxer.streaming_demux(demuxer.audio_stream_index, num_packets=2))
    assert sum(len(packets) for packets in chunks) == -(-len(data) // 4096)


@pytest.mark.parametrize(
    ("code", "block", "order", "words"),
    [
        (0x40, 64, "<", "G.721 ADPCM"),
        (0x38, 42, "<", "NMS VBXADPCM"),
        (0x11, 1024, ">", "WAVE format 17.*big-endian"),
    ],
)
def test_codings_that_ffmpeg_takes_for_others_are_refused(code: int, block: int, order: str, words: str) -> None:
    """By name, rather than decoded to noise or called damaged."""
    riff = b"RIFF" if order == "<" else b"RIFX"
    data = wav(bytes(range(256)) * 20, bits=4, code=code, block=block, order=order, riff=riff)
    with pytest.raises(spdl.io.OpenError, match=words):
        spdl.io.load_audio(data)


@pytest.mark.parametrize("name", [b"bext", b"cue ", b"smpl", b"fact", b"PEAK", b"iXML"])
@pytest.mark.parametrize("size", [0, 1, 3, 100])
def test_chunks_that_are_too_short_do_not_hide_the_samples(name: bytes, size: int) -> None:
    """Whatever they should say, they say nothing about the samples."""
    expect(wav(SAMPLES.tobytes(), channels=2, before=chunk(name, bytes(size))), SAMPLES, 2.0**15)


@pytest.mark.parametrize(("code", "name"), [(6, "A-law"), (7, "µ-law")])
@pytest.mark.parametrize(("order", "riff"), ORDERS, ids=["RIFF", "RIFX"])
def test_companded_samples(code: int, name: str, order: str, riff: bytes) -> None:
    """``load_audio`` expands them, as ITU-T G.711 has it; ``load_wav`` refuses them by name."""
    stored = bytes(range(256))
    data = wav(stored, bits=8, code=code, valid=8, order=order, riff=riff)
    with pytest.raises(spdl.io.WAVError, match=name):
        spdl.io.load_wav(data)
    codes = np.arange(256)
    if code == 7:
        flipped = ~codes & 0xFF
        size = (((flipped & 15) << 3) + 0x84 << ((flipped >> 4) & 7)) - 0x84
        expected = np.where(flipped & 0x80, -size, size)
    else:
        flipped = codes ^ 0x55
        exponent = (flipped >> 4) & 7
        size = ((flipped & 15) << 4) + 8
        size = np.where(exponent > 0, (size + 0x100) << np.maximum(exponent - 1, 0), size)
        expected = np.where(flipped & 0x80, size, -size)
    np.testing.assert_array_equal(loaded(data, dtype="int16")[:, 0], expected)
