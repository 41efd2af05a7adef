"""soundfile (tried: 0.14 with libsndfile 1.2): WAV, AIFF, AU, CAF, W64, FLAC, MP3, Vorbis and Opus in Ogg.

Do not believe it about chained Ogg (first link only) and FLAC without a length.
"""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

__all__ = ["SOUNDFILE", "sound_of"]

SOUNDFILE = "soundfile"


def sound_of(path: Path) -> NDArray[Any]:
    """All samples as ``float32``, ``(channels, samples)``."""
    import soundfile

    samples: NDArray[Any] = soundfile.read(str(path), dtype="float32", always_2d=True)[0]
    return samples.T
