"""soundfile (tried: 0.14 with libsndfile 1.2): WAV, AIFF, AU, CAF, W64, FLAC, MP3, Vorbis and Opus in Ogg.

Do not believe it about chained Ogg (first link only) and FLAC without a length.
"""

import io
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

__all__ = ["SOUNDFILE", "sound_of", "sound_of_bytes"]

SOUNDFILE = "soundfile"


def sound_of(path: Path) -> NDArray[Any]:
    """All samples as ``float32``, ``(channels, samples)``."""
    import soundfile

    samples: NDArray[Any] = soundfile.read(str(path), dtype="float32", always_2d=True)[0]
    return samples.T


def sound_of_bytes(data: bytes) -> NDArray[Any]:
    """All samples of a file in memory as ``float64``, ``(samples, channels)``."""
    import soundfile

    samples: NDArray[Any] = soundfile.read(io.BytesIO(data), dtype="float64", always_2d=True)[0]
    return samples
