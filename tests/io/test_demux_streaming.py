"""Packets by and by."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, h264, pictures, tones


def both() -> Path:
    """Two seconds of pictures, a key frame every 12, and sound."""
    return clip("both.mp4", *pictures(), *tones(), "-c:v", "libx264", "-g", "12", "-bf", "2", "-pix_fmt", "yuv420p",
                "-c:a", "aac")  # fmt: skip


def test_chunks_of_packets_add_up_to_the_whole() -> None:
    """In their order; the last one is shorter."""
    with spdl.io.Demuxer(h264()) as demuxer:
        chunks = list(demuxer.streaming_demux(0, num_packets=15))
        whole = demuxer.demux_video()
    assert [len(chunk) for chunk in chunks] == [15, 15, 15, 5]
    times = [time for chunk in chunks for time in chunk.get_timestamps(raw=True)]  # type: ignore[union-attr]
    assert times == whole.get_timestamps(raw=True)


def test_packets_from_streaming_have_no_codec() -> None:
    """Nor what only a codec can tell; the demuxer has it."""
    with spdl.io.Demuxer(h264()) as demuxer:
        packets = next(iter(demuxer.streaming_demux(num_packets=3)))
        assert isinstance(packets, spdl.io.VideoPackets)
        assert packets.codec is None
        assert packets.timestamp is None
        with pytest.raises(spdl.io.NoCodecError, match="no codec"):
            packets.width  # noqa: B018
        assert "Codec" not in repr(packets)
        with pytest.raises(spdl.io.NoCodecError):
            spdl.io.decode_packets(packets)


def test_one_index_gives_packets_and_several_give_dicts() -> None:
    """None is stream 0, not in a dict."""
    with spdl.io.Demuxer(both()) as demuxer:
        assert isinstance(next(iter(demuxer.streaming_demux(num_packets=1))), spdl.io.VideoPackets)
        assert isinstance(next(iter(demuxer.streaming_demux(1, num_packets=1))), spdl.io.AudioPackets)
        for indices in ([0, 1], {0, 1}, (1, 0), range(2)):
            chunk = next(iter(demuxer.streaming_demux(indices, num_packets=10)))
            assert {type(each) for each in chunk.values()} <= {spdl.io.VideoPackets, spdl.io.AudioPackets}
        assert list(next(iter(demuxer.streaming_demux([1], num_packets=1)))) == [1]


def test_the_stream_that_fills_first_is_counted() -> None:
    """No stream has more than ``num_packets``, one has as many; all packets come."""
    total: Counter[int] = Counter()
    with spdl.io.Demuxer(both()) as demuxer:
        chunks = list(demuxer.streaming_demux([0, 1], num_packets=10))
        expected = {0: len(demuxer.demux_video()), 1: len(demuxer.demux_audio())}
    for chunk in chunks:
        total.update({index: len(packets) for index, packets in chunk.items()})
    assert all(max(map(len, chunk.values())) == 10 for chunk in chunks[:-1])
    assert dict(total) == expected


@pytest.mark.parametrize(("duration", "lengths"), [(0.3, [12, 12, 12, 12, 2]), (0.5, [24, 24, 2]), (9, [50])])
def test_chunks_of_a_duration_end_with_a_group(duration: float, lengths: list[int]) -> None:
    """Each begins with a key frame, and is at least that long, but for the last."""
    with spdl.io.Demuxer(both()) as demuxer:
        chunks: list[Any] = list(demuxer.streaming_demux(0, duration=duration))
        assert [len(chunk) for chunk in chunks] == lengths
        several: list[Any] = list(demuxer.streaming_demux({0, 1}, duration=duration))
        assert [len(chunk[0]) for chunk in several] == lengths
        sounds: list[Any] = list(demuxer.streaming_demux(1, duration=duration))
    assert sum(len(chunk) for chunk in sounds) == sum(len(chunk[1]) for chunk in several)


def test_chunks_can_be_decoded_by_and_by() -> None:
    """They add up to what decoding everything gives."""
    with spdl.io.Demuxer(h264()) as demuxer:
        decoder: Any = spdl.io.Decoder(demuxer.video_codec)
        count = 0
        for packets in demuxer.streaming_demux(0, duration=0.5):
            count += sum(len(frames) for frames in decoder.streaming_decode_packets(packets))
        count += sum(len(frames) for frames in decoder.flush())
    assert count == 50


def test_exactly_one_limit_is_needed() -> None:
    """Neither none nor both, nor something that is no limit."""
    with spdl.io.Demuxer(h264()) as demuxer:
        limits: Any
        for limits in ({}, {"duration": 1, "num_packets": 1}, {"num_packets": 0}, {"duration": float("nan")}):
            with pytest.raises(ValueError, match="exactly one of duration and num_packets"):
                demuxer.streaming_demux(0, **limits)
        wrong: Any
        for wrong in ({"num_packets": 1.5}, {"duration": "1"}, {"num_packets": True}):
            with pytest.raises(TypeError):
                demuxer.streaming_demux(0, **wrong)


def test_indices_are_checked() -> None:
    """A stream that is not there is a ``RuntimeError``."""
    with spdl.io.Demuxer(h264()) as demuxer:
        for index in (1, -1, 99):
            with pytest.raises(spdl.io.StreamNotFoundError, match="stream index") as caught:
                demuxer.streaming_demux(index, num_packets=1)
            assert isinstance(caught.value, RuntimeError)
        with pytest.raises(spdl.io.StreamNotFoundError):
            demuxer.streaming_demux([0, 7], num_packets=1)
        for wrong in ("0", [0.5], 1.5, iter([0])):
            with pytest.raises(TypeError, match="indices must be"):
                demuxer.streaming_demux(wrong, num_packets=1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="at least one index"):
            demuxer.streaming_demux([], num_packets=1)
        one: Any = np.int64(0)
        assert len(next(demuxer.streaming_demux(one, num_packets=1))) == 1
        assert next(demuxer.streaming_demux([one], num_packets=1)).keys() == {0}


def test_another_use_of_the_demuxer_ends_the_iteration() -> None:
    """With an error, and not with packets from somewhere else. Looking at streams is no such use."""
    with spdl.io.Demuxer(both()) as demuxer:
        chunks = demuxer.streaming_demux(0, num_packets=5)
        next(chunks)
        demuxer.video_codec, demuxer.has_audio()
        next(chunks)
        demuxer.demux_audio((0, 1))
        with pytest.raises(spdl.io.MediaError, match="used for something else"):
            next(chunks)


def test_an_iteration_can_be_left_and_begun_anew() -> None:
    """Each starts at the beginning."""
    with spdl.io.Demuxer(h264()) as demuxer:
        firsts: list[Any] = [next(iter(demuxer.streaming_demux(0, num_packets=5))) for _ in range(3)]
        chunks = demuxer.streaming_demux(0, num_packets=50)
        assert len(next(chunks)) == 50
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(chunks)
    assert len({tuple(first.get_timestamps()) for first in firsts}) == 1
