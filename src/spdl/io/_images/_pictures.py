"""Decoding and filtering pictures with FFmpeg, one or many in one native call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spdl.io import _native
from spdl.io._errors import MediaError
from spdl.io._media._config import DecodeConfig, DemuxConfig

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
    name: str | None = None,
) -> "list[ImageFrames | MediaError]":
    """Frames or the exception for each source (in the form for native code). One native call without the GIL."""
    demux = decode = None
    if demux_config is not None:
        demux = (
            demux_config.format,
            dict(demux_config.format_options),
            demux_config.buffer_size,
            demux_config.tolerate_errors,
            None if demux_config.protocols is None else list(demux_config.protocols),
            demux_config.timeout,
        )
    if decode_config is not None:
        decode = decode_config.decoder, dict(decode_config.decoder_options), decode_config.tolerate_errors
    return _native.media.load_pictures(
        list(sources), name=name, filter=filter_desc, demux=demux, decode=decode, max_pixels=max_pixels, orient=orient
    )
