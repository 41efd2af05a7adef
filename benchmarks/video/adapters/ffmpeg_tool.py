"""The ffmpeg tool decodes, scales and writes raw pictures to /dev/null.

Its time is what it reports for its work (``-benchmark``), without starting the process and opening the file. Opening is
counted for SPDL.
"""

import re
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np

from ._shown import shown


def versions() -> dict[str, str]:
    said = subprocess.run(["ffmpeg", "-version"], capture_output=True, text=True, check=True).stdout
    return {"ffmpeg": said.split()[2]}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if "indices" in data or "times" in data:
        return None
    return lambda: _run(data, "-").stdout


def measure(case: str, data: dict[str, Any], num_calls: int) -> dict[str, float]:
    """Seconds of several runs."""
    wall = cpu = 0.0
    for _ in range(num_calls):
        said = _run(data, "/dev/null").stderr.decode()
        times = {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)s", said)}
        wall += times["rtime"]
        cpu += times["utime"] + times["stime"]
    return {"wall": wall, "cpu": cpu}


def _run(data: dict[str, Any], to: str) -> "subprocess.CompletedProcess[bytes]":
    scale = [f"scale={data['size']}:{data['size']}:flags={data['scaler']}"] if "size" in data else []
    command = ["ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "info", "-nostats", "-benchmark", "-threads", "1"]
    command += ["-filter_threads", "1", "-i", data["path"], "-vf", ",".join([*scale, "format=rgb24"])]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-threads", "1", "-y", to]
    return subprocess.run(command, capture_output=True, check=True)


def outputs(case: str, result: bytes) -> dict[str, Any]:
    width, height = (224, 224) if case.partition("_")[2].startswith("224") else SIZES[case.partition("_")[0]]
    return shown(np.frombuffer(result, np.uint8).reshape(-1, height, width, 3))


SIZES = {"small": (640, 360), "large": (1280, 720)}
