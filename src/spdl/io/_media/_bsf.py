"""``BSF`` and ``apply_bsf``: bit stream filters, which modify packets without decoding them."""

from typing import TYPE_CHECKING, TypeVar, cast

from spdl.io import _native
from spdl.io._trace import traced

if TYPE_CHECKING:
    from spdl.io._native import AudioCodec, AudioPackets, ImageCodec, ImagePackets, VideoCodec, VideoPackets

    P = TypeVar("P", AudioPackets, VideoPackets, ImagePackets)


class BSF:
    """Apply a chain of bit stream filters to a stream of packets. Not thread-safe; releases the GIL.

    Args:
        codec: Codec of the packets, such as ``demuxer.video_codec``.
        bsf: Filters in FFmpeg's syntax: ``"h264_mp4toannexb"``, ``"noise=amount=10,null"``.

    Raises:
        TypeError: ``codec`` is not a codec.
        FilterError: A filter or option is unknown, or does not support the codec.
    """

    def __init__(self, codec: "AudioCodec | VideoCodec | ImageCodec", bsf: str) -> None:
        self._native = _native.media.BSF(codec, bsf)

    @traced
    def filter(self, packets: "P", flush: bool = False) -> "P | None":
        """Filter packets. ``packets`` are neither changed nor consumed.

        Args:
            packets: Packets of the kind of the codec. If they have no codec (from streaming), the result has none.
            flush: Whether these are the last packets, so that the filters return all that they still hold.

        Returns:
            Packets with the window of ``packets``; ``None`` if the filters returned no packet.

        Raises:
            FilterError: The packets are of another kind, or a filter rejects them.
            ConsumedError: The packets were consumed before.
        """
        return cast("P | None", self._native.filter(packets, flush))

    @traced
    def flush(self) -> "AudioPackets | VideoPackets | ImagePackets | None":
        """Return the packets that the filters still hold, or ``None``. The filters can be used again after that."""
        return self._native.flush()


@traced
def apply_bsf(packets: "P", bsf: str) -> "P | None":
    """Apply bit stream filters to packets. The result has a matching codec.

    Args:
        packets: Packets, which are neither changed nor consumed.
        bsf: Filters in FFmpeg's syntax.

    Returns:
        Packets with the window of ``packets``; ``None`` if the filters returned no packet.

    Raises:
        NoCodecError: The packets have no codec, like those from streaming; use ``BSF``. Also a ``ValueError``.
        FilterError: A filter or option is unknown, or a filter rejects the packets.
        ConsumedError: The packets were consumed before.
    """
    return cast("P | None", _native.media.apply_bsf(packets, bsf))
