"""``spdl.io``: this checkout's or the reference's, whichever the interpreter has."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import spdl.io
from benchmarks._contest.ours import spdl_version

from ._reading import outputs as outputs
from ._reading import read


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def prepare(case: str, data: dict[str, str]) -> Callable[[], Any] | None:
    file = read(data)
    # As many as the threads of tar_8 have: together they do not fit in the CPU's caches.
    archives = cycle([read(data) for _ in range(8)] if case == "tar_in_turn" else [file])
    return {
        "tar": lambda: list(spdl.io.iter_tarfile(file)),
        "tar_8": lambda: list(spdl.io.iter_tarfile(file)),
        "tar_in_turn": lambda: list(spdl.io.iter_tarfile(next(archives))),
        "tar_large": lambda: list(spdl.io.iter_tarfile(file)),
        "tar_large_8": lambda: list(spdl.io.iter_tarfile(file)),
        "tar_stream": lambda: _stream(data["path"]),
        "npy_view": lambda: spdl.io.load_npy(file),
        "npy_copy": lambda: spdl.io.load_npy(file, copy=True),
        "npy_copy_large": lambda: spdl.io.load_npy(file, copy=True),
        "npz": lambda: dict(spdl.io.load_npz(file)),
        "npz_deflated": lambda: dict(spdl.io.load_npz(file)),
        "npz_walk": lambda: dict(spdl.io.load_npz(file)),
        "wav": lambda: spdl.io.load_wav(file),
        "wav_window": lambda: spdl.io.load_wav(file, 2.0, 1.0),
    }.get(case)


def _stream(path: str) -> Any:
    with open(path, "rb") as file:
        return list(spdl.io.iter_tarfile(file))
