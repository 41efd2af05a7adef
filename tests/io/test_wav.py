"""``load_wav`` and ``parse_wav``, judged by the standard library's ``wave`` and by hand-made headers."""

import gc
import io
import struct
import wave
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdl.io
from tests.strategies.profiles import cases


def make_wav(
    samples: Any, sample_rate: int = 8000, *, code: int | None = None, bits: int | None = None, before: bytes = b"",
    between: bytes = b"", behind: bytes = b"", extra: bytes = b"", data_size: int | None = None, riff: bytes = b"RIFF",
) -> bytes:  # fmt: skip
    """A file of these samples, ``(samples, channels)``, with a header that may lie."""
    array = np.asarray(samples)
    array = array.reshape(len(array), -1)
    bits = array.itemsize * 8 if bits is None else bits
    code = (3 if array.dtype.kind == "f" else 1) if code is None else code
    frame = array.shape[1] * bits // 8
    form = struct.pack("<HHIIHH", code, array.shape[1], sample_rate, sample_rate * frame, frame, bits) + extra
    data = array.tobytes()
    body = b"WAVE" + before + b"fmt " + struct.pack("<I", len(form)) + form + between
    body += b"data" + struct.pack("<I", len(data) if data_size is None else data_size) + data + behind
    return riff + struct.pack("<I", len(body)) + body


def as_array(data: Any, *times: float | None) -> Any:
    """What is viewed, as NumPy sees it."""
    return np.asarray(spdl.io.load_wav(data, *times))


RAMP = np.arange(2000, dtype=np.int16).reshape(1000, 2)


@pytest.mark.parametrize("dtype", ["u1", "<i2", "<i4", "<f4", "<f8"])
@pytest.mark.parametrize("num_channels", [1, 2, 7])
def test_samples(dtype: str, num_channels: int) -> None:
    """All codings that have an array, ``(samples, channels)``."""
    samples = (np.arange(5 * num_channels) - 3).astype(dtype).reshape(5, num_channels)
    found = as_array(make_wav(samples))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, samples)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_files_of_the_standard_library(width: int) -> None:
    """What ``wave`` writes and reads."""
    stream = io.BytesIO()
    data = bytes(range(240))
    with wave.open(stream, "wb") as file:
        file.setnchannels(3)
        file.setsampwidth(width)
        file.setframerate(44100)
        file.writeframes(data)
    loaded = spdl.io.load_wav(stream.getvalue())
    assert np.asarray(loaded).tobytes() == data
    assert loaded.shape == (240 // width // 3, 3)
    assert loaded.sample_rate == 44100
    header = spdl.io.parse_wav(stream.getvalue())
    assert (header.num_channels, header.bits_per_sample, header.sample_rate) == (3, 8 * width, 44100)
    assert (header.audio_format, header.data_size, header.block_align) == (1, 240, 3 * width)
    assert header.byte_rate == 44100 * 3 * width


def test_header_is_public_and_shows_itself() -> None:
    """For logs."""
    header = spdl.io.parse_wav(make_wav(RAMP))
    assert isinstance(header, spdl.io.WAVHeader)
    assert repr(header) == (
        "WAVHeader(audio_format=1, num_channels=2, sample_rate=8000, byte_rate=32000, block_align=4,"
        " bits_per_sample=16, data_size=4000)"
    )
    with pytest.raises(AttributeError):
        header.sample_rate = 1  # type: ignore[misc]  # it is to fail


def test_result_is_an_array_interface() -> None:
    """``to_numpy`` takes it."""
    loaded = spdl.io.load_wav(make_wav(RAMP))
    assert isinstance(loaded, spdl.io.ArrayInterface)
    np.testing.assert_array_equal(spdl.io.to_numpy(loaded), RAMP)
    assert repr(loaded) == "WAVArray<shape=(1000, 2), dtype='<i2', sample_rate=8000>"


def chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


@pytest.mark.parametrize("size", [0, 1, 7, 26])
def test_other_chunks_are_passed_over(size: int) -> None:
    """Before the format, between, behind; those of odd size are padded."""
    other = chunk(b"LIST", b"x" * size) + chunk(b"fact", bytes(4))
    np.testing.assert_array_equal(as_array(make_wav(RAMP, before=other, between=other, behind=other)), RAMP)


def test_longer_format_chunk() -> None:
    """As is usual for floats."""
    np.testing.assert_array_equal(as_array(make_wav(RAMP.astype("f4"), extra=b"\0\0")), RAMP)


@pytest.mark.parametrize("riff", [b"RF64", b"BW64"])
def test_sizes_of_64_bits(riff: bytes) -> None:
    """The data's is in a chunk of its own."""
    ds64 = chunk(b"ds64", struct.pack("<QQQI", 0, RAMP.nbytes, len(RAMP), 0))
    data = make_wav(RAMP, riff=riff, before=ds64, data_size=0xFFFFFFFF)
    np.testing.assert_array_equal(as_array(data), RAMP)
    assert spdl.io.parse_wav(data).data_size == RAMP.nbytes


def test_stated_size_of_the_file_does_not_count() -> None:
    """Writers to pipes leave it unset."""
    data = make_wav(RAMP)
    for size in (0, 7, 0xFFFFFFFF):
        np.testing.assert_array_equal(as_array(data[:4] + struct.pack("<I", size) + data[8:]), RAMP)


@pytest.mark.parametrize(
    ("times", "start", "stop"),
    [
        ((), 0, 1000),
        ((None, None), 0, 1000),
        ((0.05,), 400, 1000),
        ((0.0, 0.01), 0, 80),
        ((0.12, 99), 960, 1000),
        ((None, 0), 0, 0),
        ((0.1, 0.0), 800, 800),
        ((0.00019,), 2, 1000),
        ((None, 0.00019), 0, 2),
        ((0.000124,), 1, 1000),
        ((0.1, 0.0002), 800, 802),
        ((0.12499,), 1000, 1000),
        ((999 / 8000,), 999, 1000),
        ((np.float32(0.5) / 8, 1), 500, 1000),
        ((0, 1e308), 0, 1000),
    ],
)
def test_windows(times: tuple[Any, ...], start: int, stop: int) -> None:
    """Sample k has the time k / rate, and is inside if start <= time < end; what is beyond the end is cut."""
    np.testing.assert_array_equal(as_array(make_wav(RAMP), *times), RAMP[start:stop])


@given(st.integers(1, 192_000), st.integers(0, 999), st.integers(0, 999))
@cases(200)
def test_window_of_whole_samples_is_exact(sample_rate: int, start: int, count: int) -> None:
    """Whatever rounding does to the quotient."""
    found = as_array(make_wav(RAMP, sample_rate), start / sample_rate, count / sample_rate)
    np.testing.assert_array_equal(found, RAMP[start : start + count])


@pytest.mark.parametrize(
    "times",
    [
        (1000 / 8000,),
        (0.126, 1),
        (1e300,),
        (-0.1,),
        (0, -1),
        (float("nan"),),
        (0, float("nan")),
        (float("inf"),),
        (0, float("inf")),
        (-float("inf"), 1),
    ],
)
def test_times_that_are_refused(times: tuple[float, ...]) -> None:
    """At the end or beyond, negative, or no number: the message names the argument."""
    with pytest.raises(ValueError, match=r"(time_offset|duration)_seconds") as caught:
        spdl.io.load_wav(make_wav(RAMP), *times)
    assert isinstance(caught.value, spdl.io.WAVError)


@pytest.mark.parametrize("times", [("1",), (0, "1"), (b"1",), (1j,)], ids=repr)
def test_times_that_are_no_numbers(times: tuple[Any, ...]) -> None:
    """A TypeError."""
    with pytest.raises(TypeError):
        spdl.io.load_wav(make_wav(RAMP), *times)


def test_file_without_samples() -> None:
    """It has an array without rows."""
    assert as_array(empty()).shape == (0, 2)
    assert as_array(empty(), 0.0, 1.0).shape == (0, 2)
    with pytest.raises(ValueError, match="ends after 0"):
        as_array(empty(), 0.1)


def empty() -> bytes:
    data = make_wav(RAMP[:1])
    at = data.index(b"data") + 4
    return data[:at] + bytes(4)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bits": 40}, "PCM of 40 bits"),
        ({"bits": 12}, "PCM of 12 bits"),
        ({"bits": 64}, "PCM of 64 bits"),
        ({"code": 3, "bits": 16}, "floats of 16 bits"),
        ({"code": 6, "bits": 8}, r"6 \(A-law\)"),
        ({"code": 7, "bits": 8}, r"7 \(µ-law\)"),
        ({"code": 2, "bits": 4}, r"2 \(ADPCM\)"),
        ({"code": 0xFFFE, "extra": bytes(24)}, r"65534 \(WAVE_FORMAT_EXTENSIBLE\)"),
        ({"code": 999}, "999 "),
    ],
)
def test_codings_without_an_array(options: dict[str, Any], reason: str) -> None:
    """They are named; ``parse_wav`` tells about them all the same."""
    data = make_wav(np.zeros((48, 1), np.uint8), **options)
    with pytest.raises(spdl.io.WAVError, match=reason):
        spdl.io.load_wav(data)
    header = spdl.io.parse_wav(data)
    assert header.bits_per_sample == options.get("bits", 8)
    assert header.audio_format == options.get("code", 1)


def patched(offset: int, form: str, value: int) -> bytes:
    """A good file with one field of its format chunk changed."""
    data = bytearray(make_wav(RAMP))
    struct.pack_into(form, data, data.index(b"fmt ") + 8 + offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too few for a header"),
        (b"RIFF", "too few for a header"),
        (b"garbage, nothing else", "does not begin with RIFF"),
        (b"RIFX" + make_wav(RAMP)[4:], "a chunk before its samples has 268435456 bytes"),
        (b"RIFF\0\0\0\0AVI LIST", "but not WAVE"),
        (make_wav(RAMP)[:12], "neither a format chunk nor samples"),
        (make_wav(RAMP)[:36], "it is truncated: it has no samples"),
        (make_wav(RAMP)[:30], "a chunk before its samples has 16 bytes, and 10 are there"),
        (make_wav(RAMP)[:-1], "should have 4000 bytes of samples, and 3999 are there"),
        (make_wav(RAMP, riff=b"RIFF", data_size=0x7FFFEFFF), "should have 2147479551 bytes of samples"),
        (make_wav(RAMP, before=chunk(b"data", b"1234")), "data chunk comes before its format chunk"),
        (make_wav(RAMP, before=chunk(b"fmt ", b"1234")), "its format has 4 bytes, too few"),
    ],
    ids=range(12),
)
def test_damaged_files(data: bytes, reason: str) -> None:
    """Both functions refuse them with the same words."""
    for function in (spdl.io.load_wav, spdl.io.parse_wav):
        with pytest.raises(ValueError, match=reason):
            function(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (patched(2, "<H", 0), "0 channels at 8000 Hz"),
        (patched(4, "<I", 0), "2 channels at 0 Hz"),
        (patched(12, "<H", 3), "should have 4 bytes, and it says 3"),
        (patched(2, "<H", 65535), "should have 131070 bytes"),
        (make_wav(np.zeros((7, 1), "u1"), bits=16), "not a multiple of 2"),
    ],
    ids=range(5),
)
def test_headers_that_do_not_fit_their_samples(data: bytes, reason: str) -> None:
    """They have no array."""
    with pytest.raises(ValueError, match=reason):
        spdl.io.load_wav(data)


def test_file_cut_at_any_byte() -> None:
    """Every one of them is an error."""
    data = make_wav(RAMP[:3], before=chunk(b"LIST", b"x"))
    for cut in range(len(data)):
        with pytest.raises(spdl.io.WAVError, match="cannot read the WAV data Bytes: 0x"):
            spdl.io.load_wav(data[:cut])


def test_view_shares_memory_and_writability() -> None:
    """Zero copy: it can be written to where the buffer can."""
    data = bytearray(make_wav(RAMP))
    as_array(data)[0, 0] = 77
    assert struct.unpack_from("<h", data, 44) == (77,)
    assert not as_array(bytes(data)).flags.writeable


def test_buffer_is_locked_while_arrays_live() -> None:
    """It cannot be resized under them; afterwards it can."""
    data = bytearray(make_wav(RAMP))
    part = as_array(data)[3:5]
    gc.collect()
    with pytest.raises(BufferError):
        data.clear()
    del part
    data.clear()


def test_array_outlives_the_name_of_its_buffer() -> None:
    """It keeps the memory."""
    array = as_array(make_wav(RAMP), 0.05)
    gc.collect()
    np.testing.assert_array_equal(array, RAMP[400:])


def test_result_in_a_cycle_is_collected() -> None:
    """A buffer that holds the view of itself."""
    import weakref

    class Data(bytearray):
        view: Any

    data = Data(make_wav(RAMP))
    data.view = spdl.io.load_wav(data)
    gone = weakref.ref(data.view)
    del data
    gc.collect()
    assert gone() is None


def test_any_buffer() -> None:
    """memoryview, arrays of any type."""
    data = make_wav(RAMP)
    for source in (memoryview(data), np.frombuffer(data, "u1"), np.frombuffer(data, "<i2").reshape(2, -1)):
        np.testing.assert_array_equal(as_array(source), RAMP)
        assert spdl.io.parse_wav(source).data_size == 4000


@pytest.mark.parametrize("data", ["text", None, 3, memoryview(bytes(99))[::2]], ids=["str", "None", "int", "gaps"])
def test_what_is_no_buffer(data: Any) -> None:
    """It is a TypeError."""
    for function in (spdl.io.load_wav, spdl.io.parse_wav):
        with pytest.raises(TypeError, match="data must be a C-contiguous buffer"):
            function(data)


SMALL = make_wav(RAMP[:4], before=chunk(b"LIST", b"xyz"))


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@cases(300)
def test_damage_anywhere_is_an_error_or_samples(changes: list[tuple[int, int]]) -> None:
    """Never a crash, and nothing outside of the file."""
    data = bytearray(SMALL)
    for at, value in changes:
        data[at] = value
    try:
        array = as_array(bytes(data), 0.0, 1.0)
    except spdl.io.WAVError:
        return
    assert array.tobytes() in data
