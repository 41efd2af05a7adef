"""``spdl doctor`` from the outside: the facts, and that it answers whatever is broken."""

import importlib.metadata
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl
from spdl._cli import _doctor, main
from spdl._cpus import CpuQuota
from spdl.io import _native
from spdl.io.utils import get_ffmpeg_versions
from tests.support.child import Ended, run_child
from tests.support.components import skip_if_bundled


def _report(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert isinstance(report, dict)
    return report


def test_report_has_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """Python, versions, files and codecs are what they are."""
    report = _report(capsys)
    assert report["spdl"]["version"] == spdl.__version__
    assert report["python"]["version"] == platform.python_version()
    assert report["python"]["executable"] == sys.executable
    assert report["python"]["is_gil_enabled"] is getattr(sys, "_is_gil_enabled", lambda: True)()
    assert 1 <= report["system"]["num_usable_cpus"] <= report["system"]["num_cpus"]
    assert report["native"]["errors"] == {"core": None, "media": None}
    assert "portable" in report["native"]["instruction_sets"]
    assert report["packages"]["numpy"] == np.__version__
    assert report["packages"]["pillow"] == importlib.metadata.version("pillow")
    assert (report["problems"], report["exit_code"]) == ([], 0)


def test_libraries_are_named_with_their_files(capsys: pytest.CaptureFixture[str]) -> None:
    """Each has its version, and was loaded from a file that exists and has its name, or that of what it is part of."""
    native = _report(capsys)["native"]
    libraries = {each["name"]: each for each in native["libraries"]}
    assert {"libjpeg-turbo", *get_ffmpeg_versions()} == set(libraries) - {"libdeflate", "libwebp", "libheif", "libtiff"}
    for name, version in get_ffmpeg_versions().items():
        assert libraries[name]["version"] == ".".join(map(str, version))
        assert Path(libraries[name]["path"]).name.startswith("_media" if native["ffmpeg_is_bundled"] else name)
    assert all(Path(each["path"]).is_file() for each in libraries.values())


def test_build_without_libdeflate_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says whether npz files are inflated by libdeflate; its absence is no problem."""
    has_it = _native.core.libdeflate_version() is not None
    assert ("libdeflate" in {each["name"] for each in _report(capsys)["native"]["libraries"]}) is has_it
    monkeypatch.setattr(_native.core, "libdeflate_version", lambda: None)
    assert main(["doctor"]) == 0
    assert "libdeflate      not in this build: Python's zlib inflates npz files" in capsys.readouterr().out


def test_build_without_libwebp_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says whether WebP is decoded by libwebp; its absence is no problem."""
    has_it = _native.media.libwebp_version() is not None
    assert ("libwebp" in {each["name"] for each in _report(capsys)["native"]["libraries"]}) is has_it
    monkeypatch.setattr(_native.media, "libwebp_version", lambda: None)
    assert main(["doctor"]) == 0
    assert "libwebp         not in this build: FFmpeg decodes WebP" in capsys.readouterr().out


def test_build_without_libheif_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says whether HEIC can be loaded, and what its decoder lacks; neither is a problem."""
    has_it = _native.media.libheif_version() is not None
    assert ("libheif" in {each["name"] for each in _report(capsys)["native"]["libraries"]}) is has_it
    monkeypatch.setattr(_native.media, "libheif_version", lambda: "1.19.0")
    monkeypatch.setattr(_native.media, "libheif_reads_hevc", lambda: False)
    assert main(["doctor"]) == 0
    assert "it has no decoder for HEVC" in capsys.readouterr().out
    monkeypatch.setattr(_native.media, "libheif_version", lambda: None)
    assert main(["doctor"]) == 0
    assert "libheif         not in this build: HEIC cannot be loaded" in capsys.readouterr().out


def test_ffmpeg_is_that_of_the_system(capsys: pytest.CaptureFixture[str]) -> None:
    """Its version is the tool's, and it is not called bundled, which only wheels are."""
    skip_if_bundled("it is no library of the system")
    said = subprocess.run(["ffmpeg", "-version"], capture_output=True, text=True, check=True).stdout.split()
    native = _report(capsys)["native"]
    assert (native["ffmpeg_version"], native["ffmpeg_is_bundled"]) == (said[2], False)
    assert main(["doctor"]) == 0
    assert f"{said[2]}, of the system" in capsys.readouterr().out


def test_bundled_ffmpeg_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is bundled if its code is in the extension's own file."""
    media = _native.media
    within = [(name, version, media.__file__) for name, version, _ in media.libraries()]
    monkeypatch.setattr(media, "libraries", lambda: within)
    assert _report(capsys)["native"]["ffmpeg_is_bundled"] is True
    assert main(["doctor"]) == 0
    assert ", bundled" in capsys.readouterr().out


def test_codecs_are_those_of_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    """What is called present, the ffmpeg tool lists, and what is called missing it does not."""
    skip_if_bundled("it has less than the tool")
    listed = subprocess.run(["ffmpeg", "-v", "quiet", "-codecs"], capture_output=True, text=True, check=True).stdout
    flags = {line.split()[1]: line.split()[0] for line in listed.splitlines() if len(line.split()) > 2}
    native = _report(capsys)["native"]
    assert set(native["decoders"]) == set(_doctor.DECODERS)
    for codec, names in native["decoders"].items():
        assert bool(names) == (flags[codec][0] == "D"), codec
    for codec, names in native["encoders"].items():
        assert bool(names) == (flags[codec][1] == "E"), codec


def test_text_names_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A person finds the same, and that all is well."""
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for words in (spdl.__version__, "libavcodec", "libjpeg-turbo", "h264", "tpad", "No problems"):
        assert words in text
    assert max(map(len, text.splitlines())) < 200


def _without(*modules: str) -> tuple[Ended, dict[str, Any]]:
    """The report of a process in which modules cannot be imported."""
    done = run_child(
        f"""
        import sys
        for name in {modules!r}:
            sys.modules[name] = None
        from spdl._cli import main
        main(["doctor"])
        sys.exit(main(["doctor", "--json"]))
        """
    )
    _, brace, rest = done.stdout.partition("\n{\n")
    return done, json.loads(brace + rest)


def test_missing_ffmpeg_is_told() -> None:
    """The exit code says that something is wrong, and the report what, beside all that is right."""
    done, report = _without("spdl.io.lib._media")
    assert (done.returncode, done.stderr) == (1, "")
    assert report["native"]["errors"]["core"] is None
    assert "cannot load the part of spdl.io that needs FFmpeg" in report["problems"][0]
    assert "needs FFmpeg" in done.stdout
    assert [each["name"] for each in report["native"]["libraries"]][:1] == ["libjpeg-turbo"]
    assert not any(each["name"].startswith("libav") for each in report["native"]["libraries"])


def test_missing_native_parts_are_told() -> None:
    """Nothing native is needed to say that it is missing."""
    done, report = _without("spdl.io.lib._core", "spdl.io.lib._media")
    assert (done.returncode, done.stderr) == (1, "")
    assert len(report["problems"]) == 1
    assert "cannot load the native part" in report["problems"][0]
    assert report["python"]["version"] == platform.python_version()


@pytest.mark.parametrize("name", ["_python", "_system", "_native_parts", "_gpus", "_packages"])
def test_one_fact_that_fails_does_not_hide_the_others(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its place shows the error."""

    def fail() -> None:
        raise LookupError("the moon is full")

    monkeypatch.setattr(_doctor, name, fail)
    code = main(["doctor"])
    text = capsys.readouterr().out
    assert code == (1 if name == "_native_parts" else 0)
    assert "LookupError: the moon is full" in text
    assert spdl.__version__ in text
    main(["doctor", "--json"])
    json.loads(capsys.readouterr().out)


def _fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_gpus_are_those_of_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One a line."""
    _fake_tool(tmp_path, monkeypatch, "echo 'GPU A, 550.1, 80 MiB'; echo 'GPU B, 550.1, 81 MiB'")
    assert _report(capsys)["gpus"] == ["GPU A, 550.1, 80 MiB", "GPU B, 550.1, 81 MiB"]


def test_no_gpu_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tool that fails counts as none, unless the driver tells of some."""
    _fake_tool(tmp_path, monkeypatch, "exit 9")
    assert isinstance(_report(capsys)["gpus"], list)


def test_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """As for every command."""
    assert main(["doctor", "--frobnicate"]) == 2
    assert "usage: spdl" in capsys.readouterr().err


def test_a_quota_of_the_container_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs are counted as pipelines count them, for the report and for the threads of ``spdl load``."""
    monkeypatch.setattr("spdl._cpus.read_quota", lambda: CpuQuota(1.0))
    assert _doctor.examine()["system"]["num_usable_cpus"] == 1
