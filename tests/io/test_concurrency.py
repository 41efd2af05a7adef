"""Many threads at once: on objects of their own everything is as with one; on a shared one nothing crashes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.clip_matrix import audio_clip, expected_pictures, video_clip
from tests.support.media import decoded_audio

NUM_THREADS = 8
CLIPS = ("h264.mp4", "vp9.webm", "av1.mp4", "hevc.mp4", "mpeg4.avi", "prores_422.mov", "open_gop.mkv", "h264.ts")


def array_of(frames: Any) -> Any:
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def load(name: str) -> Any:
    return spdl.io.to_numpy(spdl.io.load_video(video_clip(name).path))


def load_bytes(name: str) -> Any:
    return spdl.io.to_numpy(spdl.io.load_video(video_clip(name).path.read_bytes()))


def step_by_step(name: str) -> Any:
    with spdl.io.Demuxer(video_clip(name).path) as demuxer:
        return array_of(spdl.io.decode_packets(demuxer.demux_video()))


def stream(name: str) -> Any:
    with spdl.io.Demuxer(video_clip(name).path) as demuxer:
        decoder: Any = spdl.io.Decoder(demuxer.video_codec)
        parts = []
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=3):
            parts += [array_of(frames) for frames in decoder.streaming_decode_packets(packets)]
        parts += [array_of(frames) for frames in decoder.flush()]
    return np.concatenate(parts)


def sample(name: str) -> Any:
    packets = spdl.io.demux_video(video_clip(name).path)
    return np.stack([array_of(image) for image in spdl.io.sample_decode_video(packets, list(range(len(packets))))])


VERBS = (load, load_bytes, step_by_step, stream, sample)


def together(work: Callable[[int], Any]) -> list[Any]:
    """What the threads gave, all of which start at the same moment."""
    start = Barrier(NUM_THREADS)

    def run(number: int) -> Any:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        return list(pool.map(run, range(NUM_THREADS)))


@pytest.mark.parametrize("verb", VERBS, ids=[verb.__name__ for verb in VERBS])
def test_eight_threads_with_files_of_their_own_get_what_one_gets(verb: Callable[[str], Any]) -> None:
    """Another codec in each thread, so that their set-up meets too."""
    for name in CLIPS:
        expected_pictures(video_clip(name), "rgb24")  # made before the threads start
    for number, given in enumerate(together(lambda number: verb(CLIPS[number]))):
        assert (given == expected_pictures(video_clip(CLIPS[number]), "rgb24")).all()


@pytest.mark.parametrize("verb", VERBS, ids=[verb.__name__ for verb in VERBS])
def test_eight_threads_with_the_same_file_get_what_one_gets(verb: Callable[[str], Any]) -> None:
    """One codec in all threads."""
    expected = expected_pictures(video_clip("h264.mp4"), "rgb24")
    for given in together(lambda _: [verb("h264.mp4") for _ in range(3)]):
        assert all((each == expected).all() for each in given)


def test_failures_in_some_threads_do_not_touch_the_others() -> None:
    """Half of the threads only meet what cannot be loaded, and get their own errors."""
    good = video_clip("h264.mp4").path
    expected = expected_pictures(video_clip("h264.mp4"), "rgb24")

    def work(number: int) -> bool:
        for turn in range(5):
            if number % 2 == 0:
                if not (spdl.io.to_numpy(spdl.io.load_video(good)) == expected).all():
                    return False
            else:
                try:
                    spdl.io.load_video(f"/nowhere/{number}-{turn}.mp4")
                except spdl.io.SourceNotFoundError as exc:
                    if f"{number}-{turn}" not in str(exc):
                        return False
                else:
                    return False
        return True

    assert all(together(work))


def test_audio_and_filters_in_eight_threads() -> None:
    """Resampling graphs are made and used at once."""
    names = ("aac.mp4", "mp3.mp3", "opus.ogg", "vorbis.ogg", "flac.flac", "alac.m4a", "s16.wav", "ac3.ac3")
    expected = [decoded_audio(audio_clip(name).path, audio_clip(name).num_channels).T for name in names]
    description = spdl.io.get_audio_filter_desc(sample_rate=16000, num_channels=1)
    alone = [spdl.io.to_numpy(spdl.io.load_audio(audio_clip(name).path, filter_desc=description)) for name in names]

    def work(number: int) -> bool:
        path = audio_clip(names[number]).path
        whole = spdl.io.to_numpy(spdl.io.load_audio(path))
        resampled = spdl.io.to_numpy(spdl.io.load_audio(path, filter_desc=description))
        return np.array_equal(whole, expected[number]) and np.array_equal(resampled, alone[number])

    assert all(together(work))


def outcomes_of(work: Callable[[int], Any]) -> list[Any]:
    """Results, or the errors of the package; anything else passes through."""

    def attempt(number: int) -> Any:
        try:
            return work(number)
        except (spdl.io.MediaError, RuntimeError) as exc:
            return exc

    return together(attempt)


def test_one_set_of_packets_is_decoded_by_one_thread_only() -> None:
    """The others are told that it has been consumed, or is in use."""
    expected = expected_pictures(video_clip("h264.mp4"), "rgb24")
    for _ in range(10):
        packets = spdl.io.demux_video(video_clip("h264.mp4").path)
        given = outcomes_of(lambda _, packets=packets: array_of(spdl.io.decode_packets(packets)))  # type: ignore[misc]
        arrays = [each for each in given if isinstance(each, np.ndarray)]
        assert len(arrays) == 1
        assert (arrays[0] == expected).all()


def test_clones_of_one_set_of_packets_are_independent() -> None:
    """Eight threads decode clones of what they share the payload of."""
    packets = spdl.io.demux_video(video_clip("h264.mp4").path)
    clones = [packets.clone() for _ in range(NUM_THREADS)]
    expected = expected_pictures(video_clip("h264.mp4"), "rgb24")
    given = together(lambda number: array_of(spdl.io.decode_packets(clones[number])))
    assert all((each == expected).all() for each in given)


def test_one_demuxer_in_eight_threads_gives_packets_or_an_error() -> None:
    """Each answer is whole, whatever the others do."""
    expected = expected_pictures(video_clip("h264.mp4"), "rgb24")
    for _ in range(5):
        with spdl.io.Demuxer(video_clip("h264.mp4").path) as demuxer:
            given = outcomes_of(lambda _, demuxer=demuxer: demuxer.demux_video())  # type: ignore[misc]
            packets = [each for each in given if not isinstance(each, Exception)]
            assert packets
            for each in packets:
                assert (array_of(spdl.io.decode_packets(each)) == expected).all()


def test_one_decoder_and_one_graph_in_eight_threads_survive() -> None:
    """Frames come out somewhere, or errors do."""
    for _ in range(5):
        packets = spdl.io.demux_video(video_clip("h264.mp4").path)
        assert packets.codec is not None
        decoder = spdl.io.Decoder(packets.codec)
        clones = [packets.clone() for _ in range(NUM_THREADS)]

        def work(number: int, decoder: Any = decoder, clones: Any = clones) -> int:
            return sum(len(frames) for frames in decoder.streaming_decode_packets(clones[number]))

        outcomes_of(work)
        outcomes_of(lambda _, decoder=decoder: sum(len(frames) for frames in decoder.flush()))  # type: ignore[misc]
        frames = spdl.io.decode_packets(packets, filter_desc=None)
        outcomes_of(lambda _, frames=frames: array_of(frames))  # type: ignore[misc]


def test_closing_while_others_read_is_an_error_for_them_or_nothing() -> None:
    """``close`` in one thread, everything else in the others."""
    for _ in range(10):
        demuxer = spdl.io.Demuxer(video_clip("with_sound.mp4").path)

        def work(number: int, demuxer: Any = demuxer) -> Any:
            if number == 0:
                return demuxer.close()
            if number % 2:
                return demuxer.demux_video()
            return [len(each) for each in demuxer.streaming_demux(0, num_packets=2)]

        outcomes_of(work)
        demuxer.close()
        with pytest.raises(spdl.io.ClosedError):
            demuxer.demux_video()


def test_clones_while_others_clone_and_look() -> None:
    """Reading methods of one object from all threads."""
    packets = spdl.io.demux_video(video_clip("h264.mp4").path)

    def work(number: int) -> Any:
        for _ in range(20):
            len(packets.clone()), packets.get_timestamps(), repr(packets), packets.__getstate__()
        return True

    outcomes_of(work)
    assert (array_of(spdl.io.decode_packets(packets)) == expected_pictures(video_clip("h264.mp4"), "rgb24")).all()
