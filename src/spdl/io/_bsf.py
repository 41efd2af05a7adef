"""Bit stream filters: from packets to packets, without decoding."""

from typing import TYPE_CHECKING, TypeVar, cast

from . import _native
from ._trace import traced

if TYPE_CHECKING:
    from ._native import AudioCodec, AudioPackets, ImageCodec, ImagePackets, VideoCodec, VideoPackets

    P = TypeVar("P", AudioPackets, VideoPackets, ImagePackets)


class BSF:
    """A chain of bit stream filters, for packets that come by and by. One thread at a time; releases the GIL.

    Args:
        codec: Codec of the packets that will come, such as ``demuxer.video_codec``.
        bsf: The filters as FFmpeg describes them: ``"h264_mp4toannexb"``, ``"noise=amount=10,null"``.

    Raises:
        TypeError: ``codec`` is no codec.
        FilterError: A filter or option is unknown, or does not go with the codec.
    """

    def __init__(self, codec: "AudioCodec | VideoCodec | ImageCodec", bsf: str) -> None:
        self._native = _native.media.BSF(codec, bsf)

    @traced
    def filter(self, packets: "P", flush: bool = False) -> "P | None":
        """What comes out for these packets, which stay as they are.

        Args:
            packets: Of the kind of the codec. Those from streaming come out without a codec too.
            flush: Whether to add what the filters still hold, as these are the last packets.

        Returns:
            Packets with the window of ``packets``; None if nothing came out.

        Raises:
            FilterError: The packets are of another kind, or a filter refuses them.
            ConsumedError: The packets were consumed.
        """
        return cast("P | None", self._native.filter(packets, flush))

    @traced
    def flush(self) -> "AudioPackets | VideoPackets | ImagePackets | None":
        """What the filters still hold, or None. They can be used again after that."""
        return self._native.flush()


@traced
def apply_bsf(packets: "P", bsf: str) -> "P | None":
    """The packets after bit stream filters, with a codec that fits them.

    Args:
        packets: They stay as they are.
        bsf: The filters as FFmpeg describes them.

    Returns:
        Packets with the window of ``packets``; None if nothing came out.

    Raises:
        NoCodecError: The packets have no codec, as those from streaming; it is a ``ValueError`` too. Use ``BSF``.
        FilterError: A filter or option is unknown, or a filter refuses the packets.
        ConsumedError: The packets were consumed.
    """
    return cast("P | None", _native.media.apply_bsf(packets, bsf))
