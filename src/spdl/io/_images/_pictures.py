"""Decode and filter images with FFmpeg, one or several in one native call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spdl.io import _native
from spdl.io._errors import MediaError
from spdl.io._media._config import DecodeConfig, DemuxConfig, decode_fields, demux_fields

if TYPE_CHECKING:
    from spdl.io._native import ImageFrames


def load_pictures(
    sources: Sequence[Any],
    demux_config: DemuxConfig | None,
    decode_config: DecodeConfig | None,
    filter_desc: str | None,
    *,
    max_pixels: int,
    orient: bool,
    num_threads: int = 0,
    name: str | None = None,
) -> "list[ImageFrames | MediaError]":
    """Return frames or an exception for each source, in one native call without the GIL."""
    return _native.media.load_pictures(
        list(sources),
        name=name,
        filter=filter_desc,
        demux=demux_fields(demux_config),
        decode=decode_fields(decode_config),
        max_pixels=max_pixels,
        orient=orient,
        num_threads=num_threads,
    )
