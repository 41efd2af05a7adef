"""Packets from pickles."""

from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import AudioPackets, ImagePackets, VideoPackets


def restore_packets(data: "Buffer") -> "AudioPackets | VideoPackets | ImagePackets":
    """What a pickle of packets calls to make them again, with the bytes from inside of it or from beside it."""
    return _native.media.deserialize(data)
