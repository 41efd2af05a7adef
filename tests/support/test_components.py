"""Which tests are skipped for what FFmpeg lacks."""

import pytest

from tests.support.components import left_out

_WHEEL = "--disable-everything --enable-zlib --enable-decoder=h264 --enable-encoder='pcm_[fsu]*' --enable-bsf='*'"


def test_an_ffmpeg_with_everything_leaves_nothing_out() -> None:
    """Distributions enable libraries, and disable none of FFmpeg's own components."""
    assert left_out(["encoder libx264", "demuxer ico"], "--enable-gpl --enable-libx264 --disable-stripping") == []


@pytest.mark.parametrize("component", ["decoder h264", "encoder pcm_s16le", "bsf anything"])
def test_what_is_configured_is_not_left_out(component: str) -> None:
    """By its name, or by a pattern."""
    assert left_out([component], _WHEEL) == []


def test_what_is_not_configured_is_left_out() -> None:
    """A decoder is no encoder of the same name."""
    assert left_out(["decoder h264", "encoder h264", "filter zlib"], _WHEEL) == ["encoder h264", "filter zlib"]


@pytest.mark.parametrize("component", ["libx264", "codec h264", "encoder", ""])
def test_a_component_without_a_kind_is_an_error(component: str) -> None:
    """Whether FFmpeg leaves it out or not, so that a wrong marker is found on every build."""
    with pytest.raises(ValueError, match="a component is a kind of"):
        left_out([component], "")
