"""Decoding by and by equals decoding all at once."""

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import spdl.io
from spdl.io import Decoder, Demuxer, convert_frames, decode_config, decode_packets, demux_audio, demux_video, to_numpy
from tests.support.media import clip, decoded_audio, decoded_video, h264, pictures, tones


def codec_of(packets: Any) -> Any:
    """It is there, unless packets come from streaming."""
    assert packets.codec is not None
    return packets.codec


def arrays_of(batches: Any) -> list[NDArray[Any]]:
    return [to_numpy(convert_frames(batch)) for batch in batches]


def tones_of_aac() -> Any:
    return clip("tones.m4a", *tones(expression="sin(440*2*PI*t)|cos(300*2*PI*t)"), "-c:a", "aac")


@settings(max_examples=15, deadline=None)
@given(num_packets=st.integers(1, 60), buffer_size=st.none() | st.integers(0, 60))
def test_batches_of_video_add_up_to_the_whole(num_packets: int, buffer_size: int | None) -> None:
    """However packets come, and however batches go; only the last batch of a call is shorter."""
    expected = decoded_video(h264(), "rgb24", (48, 64, 3))
    found = []
    with Demuxer(h264()) as demuxer:
        decoder = Decoder(demuxer.video_codec)
        if buffer_size is not None:
            decoder.set_buffer_size(buffer_size)
        for packets in demuxer.streaming_demux(num_packets=num_packets):
            assert isinstance(packets, spdl.io.VideoPackets)
            found.append(arrays_of(decoder.streaming_decode_packets(packets)))
        found.append(arrays_of(decoder.flush()))
    for call in found:
        sizes = [len(batch) for batch in call]
        if buffer_size:
            assert all(size == buffer_size for size in sizes[:-1])
            assert all(1 <= size <= buffer_size for size in sizes)
        else:
            assert len(sizes) <= 1
    assert (np.concatenate([batch for call in found for batch in call]) == expected).all()


@settings(max_examples=30, deadline=None)
@given(num_packets=st.integers(1, 20))
def test_batches_of_audio_add_up_to_the_whole(num_packets: int) -> None:
    """Bit for bit, with a filter that holds samples back."""
    filter_desc = spdl.io.get_audio_filter_desc(sample_rate=11025)
    whole = to_numpy(convert_frames(decode_packets(demux_audio(tones_of_aac()), filter_desc)))
    with Demuxer(tones_of_aac()) as demuxer:
        decoder = Decoder(demuxer.audio_codec, filter_desc=filter_desc)
        found = []
        for packets in demuxer.streaming_demux(num_packets=num_packets):
            assert isinstance(packets, spdl.io.AudioPackets)
            found += arrays_of(decoder.streaming_decode_packets(packets))
        found += arrays_of(decoder.flush())
    assert (np.concatenate(found, axis=1) == whole).all()


def test_default_filters_are_those_of_decoding_at_once() -> None:
    """``fltp`` and ``rgb24``; ``None`` is the decoder's own format."""
    video, audio = demux_video(h264()), demux_audio(tones_of_aac())
    decoder = Decoder(codec_of(audio))
    assert isinstance(decoder, spdl.io.AudioDecoder)
    found = arrays_of(decoder.streaming_decode_packets(audio)) + arrays_of(decoder.flush())
    assert (np.concatenate(found, axis=1) == decoded_audio(tones_of_aac(), 2).T).all()
    video_decoder = Decoder(codec_of(video))
    assert isinstance(video_decoder, spdl.io.VideoDecoder)
    assert {batch.pix_fmt for batch in video_decoder.streaming_decode_packets(video.clone())} == {"rgb24"}
    native = Decoder(codec_of(video), filter_desc=None)
    assert {batch.pix_fmt for batch in native.streaming_decode_packets(video)} == {"yuv420p"}


def test_frames_lag_behind_packets() -> None:
    """A decoder holds pictures back to put them in order; flushing gives them, once."""
    packets = demux_video(h264())
    decoder = Decoder(codec_of(packets))
    ready = sum(len(batch) for batch in decoder.streaming_decode_packets(packets))
    assert 40 < ready < 50
    assert ready + sum(len(batch) for batch in decoder.flush()) == 50
    assert list(decoder.flush()) == []


def test_packets_are_consumed_at_once() -> None:
    """Not only when the iterator gets to them."""
    packets = demux_video(h264())
    decoder = Decoder(codec_of(packets))
    iterator = decoder.streaming_decode_packets(packets)
    with pytest.raises(spdl.io.ConsumedError):
        len(packets)
    assert iter(iterator) is iterator
    assert len(next(iterator)) > 0


def test_window_of_packets_holds() -> None:
    """As in decoding all at once."""
    packets = demux_video(h264(), timestamp=(0.52, 1.24))
    decoder = Decoder(codec_of(packets))
    found = arrays_of(decoder.streaming_decode_packets(packets)) + arrays_of(decoder.flush())
    assert (np.concatenate(found) == decoded_video(h264(), "rgb24", (48, 64, 3))[13:31]).all()


def test_iterator_left_early_loses_nothing() -> None:
    """The next one goes on where it stopped."""
    expected = decoded_video(h264(), "rgb24", (48, 64, 3))
    with Demuxer(h264()) as demuxer:
        decoder = Decoder(demuxer.video_codec)
        decoder.set_buffer_size(3)
        found: list[NDArray[Any]] = []
        for packets in demuxer.streaming_demux(num_packets=10):
            assert isinstance(packets, spdl.io.VideoPackets)
            iterator = decoder.streaming_decode_packets(packets)
            found += arrays_of([next(iterator)]) if len(found) else arrays_of(iterator)
        found += arrays_of(decoder.flush())
    assert (np.concatenate(found) == expected).all()


def test_exhausted_iterator_stays_exhausted() -> None:
    """Also when its decoder has got more."""
    packets = demux_video(h264())
    decoder = Decoder(codec_of(packets))
    first = decoder.streaming_decode_packets(packets.clone())
    assert len(list(first)) == 1
    second = decoder.streaming_decode_packets(packets)
    assert list(first) == []
    assert len(list(second)) == 1


def test_flushed_decoder_takes_no_more_packets() -> None:
    """They would be lost; the packets are not consumed."""
    packets = demux_video(h264())
    decoder = Decoder(codec_of(packets))
    list(decoder.flush())
    with pytest.raises(spdl.io.ClosedError, match="make a new one"):
        decoder.streaming_decode_packets(packets)
    assert len(packets) == 50


def test_negative_buffer_size_is_an_error() -> None:
    """Zero means no limit."""
    decoder = Decoder(codec_of(demux_video(h264())))
    with pytest.raises(ValueError, match="buffer_size must be >= 0, got -1"):
        decoder.set_buffer_size(-1)


def test_images_are_not_streamed() -> None:
    """The error points to what decodes them."""
    codec: Any = spdl.io.demux_image(clip("picture.png", *pictures(), "-frames:v", "1")).codec
    with pytest.raises(TypeError, match="decode_packets"):
        Decoder(codec)


@pytest.mark.parametrize("codec", [3, None, "h264"])
def test_codec_of_another_type_is_an_error(codec: Any) -> None:
    """It has to be one of a stream."""
    with pytest.raises(ValueError, match="codec must be AudioCodec or VideoCodec, got"):
        Decoder(codec)


def test_packets_of_another_kind_are_an_error() -> None:
    """They are not consumed."""
    decoder: Any = Decoder(codec_of(demux_video(h264())))
    packets = demux_audio(tones_of_aac())
    with pytest.raises(TypeError):
        decoder.streaming_decode_packets(packets)
    assert len(packets) > 0


def test_damage_ends_the_iterator_or_is_counted_in_its_batch() -> None:
    """After an error the decoder takes the next packets; batches together count what was tolerated."""
    data = bytearray(h264().read_bytes())
    start = data.index(b"mdat") + 3000
    data[start : start + 40] = bytes(40)
    packets = demux_video(bytes(data))
    decoder = Decoder(codec_of(packets))
    iterator = decoder.streaming_decode_packets(packets.clone())
    with pytest.raises(spdl.io.DecodeError):
        list(iterator)
    assert list(iterator) == []
    assert sum(len(batch) for batch in decoder.streaming_decode_packets(demux_video(h264()))) > 40
    tolerant = Decoder(codec_of(packets), decode_config=decode_config(tolerate_errors=True))
    tolerant.set_buffer_size(5)
    batches = [*tolerant.streaming_decode_packets(packets.clone()), *tolerant.flush()]
    whole = decode_packets(packets, decode_config=decode_config(tolerate_errors=True))
    assert sum(batch.num_errors for batch in batches) == whole.num_errors > 0


def test_two_threads_at_once_are_an_error_and_no_crash() -> None:
    """Whoever comes while another one works is told so; no picture is lost or doubled."""
    packets = demux_video(h264())
    decoder = Decoder(codec_of(packets))
    decoder.set_buffer_size(1)
    iterator = decoder.streaming_decode_packets(packets)
    barrier = threading.Barrier(4)
    times: list[float] = []
    wrong: list[BaseException] = []

    def advance() -> None:
        barrier.wait()
        while True:
            try:
                times.extend(next(iterator).get_timestamps())
            except StopIteration:
                return
            except spdl.io.MediaError as exc:
                if "another thread is using the same object" not in str(exc):
                    wrong.append(exc)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    rest = [time for batch in decoder.flush() for time in batch.get_timestamps()]
    assert np.allclose(sorted(times) + rest, np.arange(50) / 25)
