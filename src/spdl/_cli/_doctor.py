"""``spdl doctor``: report what is installed, what is missing, and where it was found.

A check that fails does not affect the others.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import spdl
from spdl._cli._options import ExitCode
from spdl._cpus import usable_cpus

if TYPE_CHECKING:
    from spdl._cli._options import SubParsers

T = TypeVar("T")

EPILOG = """\
exit codes:
  0  the native parts and FFmpeg can be used; items listed as missing are optional
  1  the native parts or FFmpeg cannot be loaded; the report says why
  2  wrong options
"""

# Common codecs, by their FFmpeg names. AVIF is av1 in another container.
DECODERS = (
    *("h264", "hevc", "vp8", "vp9", "av1", "mpeg4", "mjpeg", "prores"),
    *("aac", "mp3", "opus", "flac", "vorbis", "pcm_s16le"),
    *("png", "webp", "gif", "bmp", "tiff"),
)
ENCODERS = ("h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg", "png", "aac", "mp3", "opus", "flac", "pcm_s16le")
# The filters that SPDL's filter descriptions use.
FILTERS = (
    *("aformat", "apad", "aresample", "atrim"),
    *("crop", "format", "fps", "pad", "scale", "tpad", "trim"),
    *("abuffer", "abuffersink", "buffer", "buffersink"),
)
# Packages that exchange arrays with us, that read object stores, that run regions elsewhere, and that bring their own
# FFmpeg into the process.
PACKAGES = (
    *("numpy", "torch", "jax", "numba", "pillow"),
    *("obstore", "fsspec", "ray"),
    *("av", "decord", "eva-decord", "opencv-python", "opencv-python-headless", "torchaudio", "torchcodec"),
)
_WIDTH = 110
_TIMEOUT = 10.0  # timeout of nvidia-smi in seconds: it wakes sleeping GPUs


def add_parser(commands: "SubParsers") -> None:
    """Add ``doctor`` to the commands of ``spdl``."""
    parser = commands.add_parser(
        "doctor",
        help="show versions, libraries, codecs and GPUs, for bug reports",
        description="Show what spdl found on this machine: Python, native parts, FFmpeg, libjpeg-turbo, libdeflate,\n"
        "libwebp, libheif, libtiff, with their versions and files, decoders, encoders and filters present and\n"
        "missing, GPUs, packages.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="write the report to stdout as one JSON object instead")


def doctor(*, as_json: bool) -> int:
    """Print the report and return the exit code."""
    report = examine()
    print(json.dumps(report, indent=1) if as_json else as_text(report))
    return int(report["exit_code"])


# -------------------------------------------------------------------------------------------------------------- facts


def examine() -> dict[str, Any]:
    """Collect all facts, JSON-serializable. A fact that cannot be determined is a dict with ``error``."""
    native = _attempt(_native_parts)
    problems = [native["error"]] if "error" in native else [*dict.fromkeys(filter(None, native["errors"].values()))]
    return {
        "spdl": {"version": spdl.__version__, "path": _attempt(lambda: str(Path(spdl.__file__).parent))},
        "python": _attempt(_python),
        "system": _attempt(_system),
        "native": native,
        "gpus": _attempt(_gpus),
        "packages": _attempt(_packages),
        "problems": problems,
        "exit_code": int(ExitCode.FAILED if problems else ExitCode.OK),
    }


def _attempt(ask: Callable[[], T]) -> "T | dict[str, Any]":
    try:
        return ask()
    except Exception as exc:  # noqa: BLE001  # the rest of the report is still needed
        return {"error": f"{type(exc).__name__}: {exc}"}


def _python() -> dict[str, Any]:
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "is_free_threaded_build": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        # Always true before Python 3.13.
        "is_gil_enabled": bool(getattr(sys, "_is_gil_enabled", lambda: True)()),
    }


def _system() -> dict[str, Any]:
    return {"platform": platform.platform(), "num_cpus": os.cpu_count(), "num_usable_cpus": usable_cpus()}


def _native_parts() -> dict[str, Any]:
    from spdl.io.utils import get_native_info

    info = get_native_info(decoders=DECODERS, encoders=ENCODERS)
    return {
        "errors": {"core": info.core_error, "media": info.media_error},
        "paths": {"core": info.core_path, "media": info.media_path},
        "instruction_sets": list(info.instruction_sets),
        "libraries": [asdict(library) for library in info.libraries],
        "reads_heic": info.reads_heic,
        "ffmpeg_version": info.ffmpeg_version,
        "ffmpeg_is_bundled": info.ffmpeg_is_bundled,
        "ffmpeg_license": info.ffmpeg_license,
        "ffmpeg_configuration": info.ffmpeg_configuration,
        "decoders": {codec: list(names) for codec, names in info.decoders.items()},
        "encoders": {codec: list(names) for codec, names in info.encoders.items()},
        "filters": {name: name in info.filters for name in FILTERS} if info.filters else {},
        "num_filters": len(info.filters),
    }


def _gpus() -> list[str]:
    """Return name, driver and memory of each NVIDIA GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        query = [tool, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        if done.returncode == 0:
            return [line.strip() for line in done.stdout.splitlines() if line.strip()]
    # Containers often have the driver but not the tool.
    folder = Path("/proc/driver/nvidia/gpus")
    files = sorted(folder.glob("*/information")) if folder.is_dir() else []
    return [_model(file.read_text(encoding="utf-8", errors="replace")) for file in files]


def _model(information: str) -> str:
    pairs = dict(line.split(":", 1) for line in information.splitlines() if ":" in line)
    return pairs.get("Model", "unknown model").strip()


def _packages() -> dict[str, str | None]:
    """Return package versions without importing the packages; ``None``: not installed."""

    def version(name: str) -> str | None:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    return {name: version(name) for name in PACKAGES}


# --------------------------------------------------------------------------------------------------------------- text


def as_text(report: dict[str, Any]) -> str:
    """Format the report as text: one fact per line, with the missing items."""
    lines: list[str] = []
    native = report["native"]
    for title, facts, rows in (
        ("spdl", {}, lambda _: [("version", report["spdl"]["version"]), ("path", _shown(report["spdl"]["path"]))]),
        ("Python", report["python"], _python_rows),
        ("system", report["system"], lambda system: _system_rows(system, native)),
        ("native parts", native, _native_rows),
        ("FFmpeg", {}, lambda _: _ffmpeg_rows(native)),
        ("GPUs", {}, lambda _: [("NVIDIA", _listed(report["gpus"], "none found"))]),
        ("packages", report["packages"], _package_rows),
    ):
        lines += [title, *(_line(name, text) for name, text in _rows(facts, rows)), ""]
    if report["problems"]:
        lines += ["problems", *(f"  {problem}" for problem in report["problems"])]
    else:
        lines.append("No problems: the native parts and FFmpeg can be used.")
    return "\n".join(lines)


def _rows(facts: dict[str, Any], rows: Callable[[dict[str, Any]], list[tuple[str, str]]]) -> list[tuple[str, str]]:
    found = facts if "error" in facts else _attempt(lambda: rows(facts))
    return [("error", str(found["error"]))] if isinstance(found, dict) else found


def _line(name: str, text: str) -> str:
    head = f"  {name:<15} "
    return textwrap.fill(
        head + text,
        width=_WIDTH,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    ).rstrip()


def _shown(fact: Any) -> str:
    return str(fact["error"]) if isinstance(fact, dict) else str(fact)


def _listed(names: Any, otherwise: str) -> str:
    return ", ".join(names) or otherwise if isinstance(names, list) else _shown(names)


def _python_rows(python: dict[str, Any]) -> list[tuple[str, str]]:
    gil = "enabled" if python["is_gil_enabled"] else "disabled"
    build = "a free-threaded build" if python["is_free_threaded_build"] else "an ordinary build"
    return [
        ("version", f"{python['version']} ({python['implementation']})"),
        ("executable", python["executable"]),
        ("GIL", f"{gil}, in {build}"),
    ]


def _system_rows(system: dict[str, Any], native: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("platform", system["platform"]),
        ("CPUs", f"{system['num_usable_cpus']} usable of {system['num_cpus']}"),
        ("instructions", _listed(native.get("instruction_sets"), "unknown")),
    ]


def _native_rows(native: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [(part, path or native["errors"][part]) for part, path in native["paths"].items()]
    rows += [_library_row(library) for library in native["libraries"] if not _is_ffmpegs(library)]
    names = {library["name"] for library in native["libraries"]}
    if names and "libdeflate" not in names:
        text = "not in this build: Python's zlib inflates npz files, FFmpeg PNG, in twice the time"
        rows.append(("libdeflate", text))
    if native["paths"].get("media") and "libwebp" not in names:
        rows.append(("libwebp", "not in this build: FFmpeg decodes WebP, in up to twice the time"))
    if native["paths"].get("media") and "libheif" not in names:
        rows.append(("libheif", "not in this build: HEIC cannot be loaded"))
    elif native.get("reads_heic") is False and "libheif" in names:
        rows.append(("", "it has no decoder for HEVC, so HEIC cannot be loaded: install libheif-plugin-libde265"))
    if native["paths"].get("media") and "libtiff" not in names:
        rows.append(("libtiff", "not in this build: FFmpeg decodes TIFF, and what it would misread is refused"))
    return rows


def _is_ffmpegs(library: dict[str, str]) -> bool:
    return library["name"].startswith(("libav", "libsw"))


def _library_row(library: dict[str, str]) -> tuple[str, str]:
    return library["name"], f"{library['version']}  {library['path']}".rstrip()


def _ffmpeg_rows(native: dict[str, Any]) -> list[tuple[str, str]]:
    if "error" in native or native["errors"]["media"] is not None:
        return [("", "not loaded")]
    origin = "bundled: part of the native part above" if native["ffmpeg_is_bundled"] else "of the system"
    rows = [("version", f"{native['ffmpeg_version']}, {origin}")]
    rows += [_library_row(library) for library in native["libraries"] if _is_ffmpegs(library)]
    rows += [("licence", native["ffmpeg_license"]), ("configuration", native["ffmpeg_configuration"])]
    for kind in ("decoders", "encoders"):
        rows += _presence(kind, {_codec(codec, names): bool(names) for codec, names in native[kind].items()})
    return rows + _presence("filters", native["filters"])


def _codec(codec: str, names: list[str]) -> str:
    """Return ``h264 (libx264)``: codec and the implementation in use, if its name differs."""
    return codec if not names or names[0] == codec else f"{codec} ({names[0]})"


def _presence(kind: str, found: dict[str, bool]) -> list[tuple[str, str]]:
    missing = [name for name, is_there in found.items() if not is_there]
    return [
        (kind, ", ".join(name for name, is_there in found.items() if is_there) or "none"),
        ("  missing", ", ".join(missing) or "none"),
    ]


def _package_rows(packages: dict[str, str | None]) -> list[tuple[str, str]]:
    rows = [(name, version) for name, version in packages.items() if version is not None]
    absent = [name for name, version in packages.items() if version is None]
    return [*rows, ("not installed", ", ".join(absent) or "none")]
