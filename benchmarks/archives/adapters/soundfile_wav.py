"""``soundfile`` (libsndfile) from memory."""

import io
from collections.abc import Callable
from typing import Any

import soundfile

from ._reading import outputs as outputs
from ._reading import read


def versions() -> dict[str, str]:
    return {"soundfile": soundfile.__version__, "libsndfile": soundfile.__libsndfile_version__}


def prepare(case: str, data: dict[str, str]) -> Callable[[], Any] | None:
    if not case.startswith("wav"):
        return None
    file = read(data)
    window = {"start": 88200, "frames": 44100} if case == "wav_window" else {}
    return lambda: soundfile.read(io.BytesIO(file), dtype="int16", **window)[0]
