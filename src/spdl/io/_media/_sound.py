"""``load_audio`` without a filter: any sample rate, number of channels and dtype, in one native call."""

from typing import TYPE_CHECKING, Any

from spdl._numbers import as_int, require_word
from spdl.io import _native
from spdl.io._source import open_media
from spdl.io._types import Source

from ._config import DecodeConfig, DemuxConfig, native_options
from ._demux import stream_of

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer

#: Dtype of audio -> bytes per element.
SOUND_DTYPES = {"float32": 4, "float64": 8, "int16": 2, "int32": 4}

# The sample rate is below what libswresample can resample; 64 is the number of channels it can mix (SWR_CH_MAX).
_LARGEST = {"sample_rate": 1_000_000, "num_channels": 64, "num_samples": 2**48}


def load_sound(
    src: Source,
    window: tuple[float, float] | None,
    *,
    sample_rate: int | None,
    num_channels: int | None,
    num_samples: int | None,
    dtype: str | None,
    stream: int | None,
    by_stream_clock: bool,
    demux_config: DemuxConfig | None,
    decode_config: DecodeConfig | None,
    name: str | None,
) -> "CPUBuffer":
    """``load_audio`` without a filter description; documented there."""
    numbers: dict[str, Any] = {
        "num_samples": None if num_samples is None else as_count("num_samples", num_samples),
        "sample_rate": 0 if sample_rate is None else as_count("sample_rate", sample_rate),
        "num_channels": 0 if num_channels is None else as_count("num_channels", num_channels),
    }
    element = "float32" if dtype is None else as_sound_dtype(dtype)
    index = stream_of(stream)
    source, name = open_media(src, name)
    return _native.media.load_sound(
        source,
        name=name,
        window=window,
        **numbers,
        dtype=element,
        stream=index,
        by_stream_clock=by_stream_clock,
        **native_options(demux_config, decode_config, (src,)),
    )


def is_stream_clock(origin: Any) -> bool:
    """Check the argument ``origin``; raises ``TypeError`` or ``ValueError``."""
    if not isinstance(origin, str):
        raise TypeError(f"origin must be 'first_sample' or 'stream', got {origin!r}")
    if origin not in ("first_sample", "stream"):
        raise ValueError(f"origin must be 'first_sample' or 'stream', got {origin!r}")
    return origin == "stream"


def as_count(name: str, value: Any) -> int:
    """Check the argument ``sample_rate``, ``num_channels`` or ``num_samples``. Raises ``TypeError``, ``ValueError``."""
    return as_int(name, value, 1, _LARGEST[name])


def as_sound_dtype(value: Any) -> str:
    """Check the argument ``dtype``; raises ``TypeError`` or ``ValueError``."""
    require_word("dtype", value, SOUND_DTYPES)
    return str(value)
