"""soundfile, which is libsndfile: it reads FLAC, and has no AAC. Crops are resampled by soxr at its default quality."""

from collections.abc import Callable
from typing import Any

import numpy as np
import soundfile
import soxr


def versions() -> dict[str, str]:
    return {
        "soundfile": soundfile.__version__,
        "libsndfile": soundfile.__libsndfile_version__,
        "soxr": soxr.__version__,
    }


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    path = data["path"]
    if "starts" in data and not case.startswith("aac"):
        return lambda: np.stack([_crop(path, start, data["rate"]) for start in data["starts"]])[:, None]
    return None if case.startswith("aac") else lambda: soundfile.read(path, dtype="float32")[0]


def _crop(path: str, start: float, rate: int) -> Any:
    """One second at another rate, mixed to mono before it is resampled, as loud as FFmpeg does it."""
    with soundfile.SoundFile(path) as file:
        file.seek(round(start * file.samplerate))
        samples = file.read(file.samplerate, dtype="float32", always_2d=True)
        return soxr.resample(samples.sum(axis=1) * 0.5**0.5, file.samplerate, rate)[:rate]


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"samples": result if result.ndim == 3 else result.T}
