"""PyAV (tried: 18.1 with FFmpeg 8.1).

Do not believe it about the ends of AAC, MP3 and AC-3 in MP4 (padding stays), nor about B-frames in AVI.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PYAV", "sound_of"]

PYAV = "av"


def sound_of(path: Path) -> NDArray[Any]:
    """All samples of the first stream of sound, in the decoder's own type, ``(channels, samples)``."""
    import av

    with av.open(str(path)) as container:
        parts = [
            array if frame.format.is_planar else array.reshape(-1, frame.layout.nb_channels).T
            for frame in container.decode(audio=0)
            for array in [frame.to_ndarray()]
        ]
    return np.concatenate(parts, axis=1)
