"""What tests need of FFmpeg: those that need more than this build's FFmpeg has are skipped.

FFmpeg as systems have it is configured with everything. The one inside wheels is configured with nothing but what
``packaging/ffmpeg-options`` lists; a test that needs another component has ``@pytest.mark.needs("encoder libx264")``,
or a parameter whose class has an attribute ``needs``.
"""

import shlex
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache

import pytest

__all__ = ["left_out", "skip_if_bundled", "skip_without"]

_KINDS = ("decoder", "encoder", "parser", "bsf", "demuxer", "muxer", "protocol", "filter")


def left_out(components: Iterable[str], configuration: str) -> list[str]:
    """Those of the components, such as ``"encoder libx264"``, that an FFmpeg with that configuration leaves out.

    What it was told to have is not among them: a test that needs that fails if it is missing.
    """
    components = list(components)
    for component in components:
        kind, _, name = component.partition(" ")
        if kind not in _KINDS or not name:
            raise ValueError(f"a component is a kind of {', '.join(_KINDS)} and a name, got {component!r}")
    options = shlex.split(configuration)
    if "--disable-everything" not in options:
        return []
    chosen = [option.removeprefix("--enable-").replace("=", " ", 1) for option in options if "=" in option]
    return [each for each in components if not any(fnmatchcase(each, pattern) for pattern in chosen)]


@cache
def _configuration() -> str:
    from spdl.io.utils import get_native_info

    return get_native_info().ffmpeg_configuration


def skip_without(item: pytest.Item) -> None:
    """Skip a test that needs a component that this build's FFmpeg leaves out."""
    parameters = getattr(item, "callspec", None)
    needed = [component for marker in item.iter_markers("needs") for component in marker.args]
    if parameters is not None:
        for value in parameters.params.values():
            if hasattr(type(value), "needs"):  # of its class: some values are objects that must not be asked
                needed += value.needs
    if needed and (missing := left_out(needed, _configuration())):
        pytest.skip(f"FFmpeg is configured without {', '.join(missing)} (packaging/ffmpeg-options)")


def skip_if_bundled(reason: str) -> None:
    """Skip a test of FFmpeg as a library of the system, where it is part of the extension, as in wheels."""
    from spdl.io.utils import get_native_info

    if get_native_info().ffmpeg_is_bundled:
        pytest.skip(f"FFmpeg is inside the extension: {reason}")
