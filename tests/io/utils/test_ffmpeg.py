"""What is said of FFmpeg, judged by the ffmpeg tool of the same system."""

import re
import subprocess
from collections.abc import Iterator

import pytest

import spdl.io.utils
from spdl.io.utils import (
    get_ffmpeg_filters,
    get_ffmpeg_log_level,
    get_ffmpeg_versions,
    get_native_info,
    set_ffmpeg_log_level,
)


@pytest.fixture(name="log_level")
def _log_level() -> Iterator[int]:
    level = get_ffmpeg_log_level()
    yield level
    set_ffmpeg_log_level(level)


def _ffmpeg(*words: str) -> str:
    return subprocess.run(["ffmpeg", "-hide_banner", *words], capture_output=True, text=True, check=True).stdout


def test_versions_are_those_of_the_tool() -> None:
    """The numbers are those which ``ffmpeg -version`` shows."""
    shown = {
        name: tuple(int(number) for number in version.replace(" ", "").split("."))
        for name, version in re.findall(r"(lib\w+) +([\d. ]+) /", _ffmpeg("-version"))
    }
    versions = get_ffmpeg_versions()
    assert {"libavcodec", "libavfilter", "libavformat", "libavutil", "libswscale"} <= set(versions)
    assert versions == {name: shown[name] for name in versions}


def test_filters_are_those_of_the_tool() -> None:
    """The names are those which ``ffmpeg -filters`` shows, and sorted."""
    shown = re.findall(r"^ [T.][S.][C.] (\S+) ", _ffmpeg("-filters"), re.MULTILINE)
    filters = get_ffmpeg_filters()
    assert filters == sorted(filters)
    # The tool hides inputs and outputs.
    assert set(filters) - set(shown) <= {"abuffer", "abuffersink", "buffer", "buffersink", "afifo", "fifo"}
    if not get_native_info().ffmpeg_is_bundled:  # that of wheels has fewer
        assert set(shown) <= set(filters)


def test_log_level_is_fatal_at_first(log_level: int) -> None:
    """FFmpeg prints nothing that an exception tells."""
    assert log_level == 8


def test_log_level_can_be_changed(log_level: int) -> None:
    """What was set is what is read."""
    set_ffmpeg_log_level(-8)
    assert get_ffmpeg_log_level() == -8
    set_ffmpeg_log_level(48)
    assert get_ffmpeg_log_level() == 48


def test_log_level_is_a_number(log_level: int) -> None:
    """Words are refused, and change nothing."""
    with pytest.raises(TypeError):
        set_ffmpeg_log_level("quiet")  # type: ignore[arg-type]
    assert get_ffmpeg_log_level() == log_level


def test_errors_are_printed_at_the_level_that_prints_them(log_level: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Hearing what FFmpeg says takes nothing away from its log, and adds nothing."""
    set_ffmpeg_log_level(16)
    with pytest.raises(spdl.io.FilterError, match="No such filter: 'nothing'"):
        spdl.io.FilterGraph("nothing")
    assert "No such filter: 'nothing'" in capfd.readouterr().err
    set_ffmpeg_log_level(8)
    with pytest.raises(spdl.io.FilterError, match="No such filter: 'nothing'"):
        spdl.io.FilterGraph("nothing")
    assert capfd.readouterr().err == ""


def test_build_has_no_cuda() -> None:
    """Asking is always fine."""
    assert spdl.io.utils.built_with_cuda() is False
    assert spdl.io.utils.built_with_nvcodec() is False
    assert spdl.io.utils.built_with_nvjpeg() is False
