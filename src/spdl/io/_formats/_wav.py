"""``load_wav`` and ``parse_wav``: samples of a WAV file in memory, mostly without a copy, and its header."""

from typing import TYPE_CHECKING, Any

from spdl._numbers import as_float
from spdl.io import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from spdl.io._native import WAVArray, WAVHeader


def load_wav(
    data: "Buffer | NDArray[Any]",
    time_offset_seconds: float | None = None,
    duration_seconds: float | None = None,
) -> "WAVArray":
    """View the samples of a WAV file in memory, without a copy where dtype and byte order allow it.

    Args:
        data: Content of the whole file (RIFF, RIFX, RF64 or BW64), as a contiguous buffer.
        time_offset_seconds: Start of the view, in seconds; ``None``: the first sample. Sample ``k`` has the time
            ``k / sample_rate``, and is in the view if ``start <= time < end``.
        duration_seconds: Duration of the view, in seconds, cut at the end of the file. ``None``: up to the end.

    Returns:
        An object with an array interface, for ``numpy.asarray``, ``to_numpy`` and others, of shape
        ``(samples, channels)``: ``uint8``, ``int16`` or ``int32`` for PCM of 8, 16 or 32 bits, ``float32`` or
        ``float64`` for IEEE float; not scaled. It is writable if ``data`` is, and keeps ``data`` alive; ``data`` cannot
        be resized while it or an array made from it exists. PCM of 24 bits and big-endian samples (RIFX) are a copy
        instead: 24 bits as left-justified ``int32``. Its ``sample_rate`` is in Hz.

    Raises:
        WAVError: The data is malformed or truncated, or has another encoding (A-law, µ-law, ADPCM, 64-bit integers; the
            message names it); or a time is negative, not finite, or not before the end. Also a ``ValueError``.
        TypeError: ``data`` is not a contiguous buffer, or a time is not a number.

    Takes about a microsecond, whatever the size, unless it copies, which it does without the GIL. Safe to call from
    several threads.
    """
    start = _as_seconds("time_offset_seconds", time_offset_seconds)
    return _native.core.load_wav(data, start, _as_seconds("duration_seconds", duration_seconds))


def _as_seconds(name: str, value: Any) -> float | None:
    return None if value is None else as_float(name, value)  # native code refuses what is not finite


def parse_wav(data: "Buffer | NDArray[Any]") -> "WAVHeader":
    """Read the header of a WAV file in memory, even if ``load_wav`` does not support its encoding.

    Args:
        data: Content of the whole file (RIFF, RIFX, RF64 or BW64), as a contiguous buffer.

    Returns:
        ``audio_format`` (1: PCM, 3: IEEE float, 65534: WAVE_FORMAT_EXTENSIBLE, others are other encodings),
        ``num_channels``, ``sample_rate`` in Hz, ``byte_rate`` and ``block_align`` as the file states them,
        ``bits_per_sample``, and ``data_size`` in bytes: of what is there, if the file does not state it.

    Raises:
        WAVError: The data is malformed or truncated. Also a ``ValueError``.
        TypeError: ``data`` is not a contiguous buffer.
    """
    return _native.core.parse_wav(data)
