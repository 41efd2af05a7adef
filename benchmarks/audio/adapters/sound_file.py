"""soundfile, which is libsndfile: it reads FLAC, and has no AAC."""

from collections.abc import Callable
from typing import Any

import soundfile


def versions() -> dict[str, str]:
    return {"soundfile": soundfile.__version__, "libsndfile": soundfile.__libsndfile_version__}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    path = data["path"]
    return None if case.startswith("aac") else lambda: soundfile.read(path, dtype="float32")[0]


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"samples": result.T}
