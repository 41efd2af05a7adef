"""What refers to what: arrays outlive all they came from, objects go in any order, long runs grow nothing."""

import contextlib
import gc
import itertools
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.child import run_child
from tests.support.clip_matrix import audio_clip, expected_pictures, video_clip
from tests.support.media import clip, decoded_audio, pictures, tones

CLIP = "with_sound.mp4"


def make_video(data: Any) -> dict[str, Any]:
    """One of each object on the way from bytes to an array of pictures."""
    objects: dict[str, Any] = {"demuxer": spdl.io.Demuxer(data)}
    objects["packets"] = objects["demuxer"].demux_video()
    objects["codec"] = objects["packets"].codec
    objects["frames"] = spdl.io.decode_packets(objects["packets"].clone())
    objects["slice"] = objects["frames"][2:5]
    objects["buffer"] = spdl.io.convert_frames(objects["frames"].clone())
    return objects


def test_an_array_outlives_all_it_came_from() -> None:
    """Its memory is its own, whatever else has gone."""
    path = video_clip(CLIP).path
    objects = make_video(path.read_bytes())
    array = spdl.io.to_numpy(objects["buffer"])
    view = array[3, 5:, ::2]
    del objects
    gc.collect()
    assert (array == expected_pictures(video_clip(CLIP), "rgb24")).all()
    del array
    gc.collect()
    churn = [np.full(200_000, 7, np.uint8) for _ in range(20)]  # memory that was given back would be written to
    assert (view == expected_pictures(video_clip(CLIP), "rgb24")[3, 5:, ::2]).all()
    del churn


def test_objects_go_in_any_order() -> None:
    """What remains works, whichever of them are gone: every order of six objects."""
    data = video_clip(CLIP).path.read_bytes()
    expected = expected_pictures(video_clip(CLIP), "rgb24")
    names = list(make_video(data))
    for number, order in enumerate(itertools.permutations(names)):
        if number % 9:  # one in nine, eighty orders
            continue
        objects = make_video(data)
        for name in order[:-1]:
            del objects[name]
        last = order[-1]
        left = objects.pop(last)
        match last:
            case "demuxer":
                array = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(left.demux_video())))
            case "packets":
                array = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(left)))
            case "codec":
                assert (left.width, left.height) == (64, 48)
                array = expected
            case "slice":
                array = spdl.io.to_numpy(spdl.io.convert_frames(left))
                assert (array == expected[2:5]).all()
                array = expected
            case "frames":
                array = spdl.io.to_numpy(spdl.io.convert_frames(left))
            case _:
                array = spdl.io.to_numpy(left)
        assert (array == expected).all(), order


def test_parts_of_frames_outlive_the_whole() -> None:
    """Slices, single pictures and clones, converted after the rest has gone."""
    expected = expected_pictures(video_clip(CLIP), "rgb24")
    frames = spdl.io.decode_packets(spdl.io.demux_video(video_clip(CLIP).path))
    parts: list[Any] = [frames[4], frames[::3], frames[[7, 7]], frames.clone()]
    wanted = [expected[4], expected[::3], expected[[7, 7]], expected]
    spdl.io.convert_frames(frames)
    del frames
    gc.collect()
    for part, want in zip(parts, wanted, strict=True):
        assert (spdl.io.to_numpy(spdl.io.convert_frames(part)) == want).all()


def test_iterators_keep_what_they_iterate() -> None:
    """A stream of packets whose demuxer, and a stream of frames whose decoder, nobody else holds."""
    path = video_clip(CLIP).path
    demuxer = spdl.io.Demuxer(path)
    codec = demuxer.video_codec
    chunks = demuxer.streaming_demux(demuxer.video_stream_index, num_packets=6)
    del demuxer
    gc.collect()
    decoder: Any = spdl.io.Decoder(codec)
    del codec
    arrays = []
    for packets in chunks:
        found = decoder.streaming_decode_packets(packets)
        del packets
        gc.collect()
        arrays += [spdl.io.to_numpy(spdl.io.convert_frames(frames)) for frames in found]
    rest = decoder.flush()
    del decoder, chunks
    gc.collect()
    arrays += [spdl.io.to_numpy(spdl.io.convert_frames(frames)) for frames in rest]
    assert (np.concatenate(arrays) == expected_pictures(video_clip(CLIP), "rgb24")).all()


def test_a_source_in_memory_is_kept_and_let_go() -> None:
    """It cannot be resized while it is read, and can be once nobody reads it."""
    data = bytearray(video_clip(CLIP).path.read_bytes())
    demuxer = spdl.io.Demuxer(data)
    with pytest.raises(BufferError):
        data.append(0)
    packets = demuxer.demux_video()
    del demuxer
    frames = spdl.io.decode_packets(packets)
    buffer = spdl.io.convert_frames(frames)
    del packets, frames
    gc.collect()
    data.append(0)
    assert (spdl.io.to_numpy(buffer) == expected_pictures(video_clip(CLIP), "rgb24")).all()


def test_arrays_that_threads_of_an_encoder_let_go_are_free(tmp_path: Path) -> None:
    """After the last call that needs them, whatever Python's main thread does: here it waits for another thread."""
    arrays = [bytearray(32 * 32 * 3) for _ in range(80)]

    def encode() -> None:
        muxer = spdl.io.Muxer(tmp_path / "out.mkv")
        config = spdl.io.video_encode_config(height=32, width=32, frame_rate=(25, 1))
        encoder: Any = muxer.add_encode_stream(config, encoder="png", encoder_config={"threads": "4"})
        with muxer.open():
            written: list[Any] = []
            for i, array in enumerate(arrays):
                pixels = np.frombuffer(array, np.uint8).reshape(1, 32, 32, 3)
                frames: Any = spdl.io.create_reference_video_frame(pixels, "rgb24", (25, 1), i)
                del pixels
                written.append(encoder.encode(frames))
                del frames
            written.append(encoder.flush())  # how many come late, if any, is up to the encoder's threads
            for packets in written:
                if packets is not None:
                    muxer.write(0, packets)

    held: list[int] = []

    def count_held() -> None:
        encode()
        for i, array in enumerate(arrays):
            try:
                array.append(0)
            except BufferError:
                held.append(i)

    thread = threading.Thread(target=count_held)
    thread.start()
    thread.join()
    assert held == []


class Watched(np.ndarray):
    """Memory that tells when it goes."""


def test_storage_is_kept_by_what_is_a_view_of_it() -> None:
    """And goes with the last of them."""
    storage = np.zeros(20 * 48 * 64 * 3, np.uint8).view(Watched)
    gone = weakref.ref(storage)
    frames = spdl.io.decode_packets(spdl.io.demux_video(video_clip(CLIP).path))
    array = spdl.io.to_numpy(spdl.io.convert_frames(frames, storage=storage))
    assert np.shares_memory(array, storage)
    del storage, frames
    gc.collect()
    assert gone() is not None
    assert (array == expected_pictures(video_clip(CLIP), "rgb24")).all()
    del array
    gc.collect()
    assert gone() is None


def test_a_source_that_fails_is_let_go() -> None:
    """An error does not keep the data."""
    data = bytearray(b"this is no media at all" * 50)
    for load in (spdl.io.load_video, spdl.io.load_audio, spdl.io.load_image):
        with pytest.raises(spdl.io.OpenError):
            load(data)
    gc.collect()
    data.append(0)


def test_the_interpreter_ends_quietly_with_objects_alive() -> None:
    """Globals of every kind, and a stream that is half read, at exit."""
    ended = run_child(
        f"""
        import spdl.io
        path = {str(video_clip(CLIP).path)!r}
        demuxer = spdl.io.Demuxer(path)
        packets = demuxer.demux_video()
        frames = spdl.io.decode_packets(packets.clone())
        image = frames[0]
        buffer = spdl.io.convert_frames(frames.clone())
        array = spdl.io.to_numpy(buffer)
        decoder = spdl.io.Decoder(demuxer.video_codec)
        chunks = demuxer.streaming_demux(demuxer.video_stream_index, num_packets=3)
        found = decoder.streaming_decode_packets(next(chunks))
        graph = spdl.io.FilterGraph("color=size=4x4:rate=1:duration=1,buffersink")
        bsf = spdl.io.BSF(demuxer.video_codec, "h264_mp4toannexb")
        samples = spdl.io.load_audio(path)
        """
    )
    ended.check()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_thousand_small_files_grow_neither_memory_nor_descriptors(tmp_path: Path) -> None:
    """Good and bad ones, from memory and from disk, by every verb that loads."""
    small = clip("small.mp4", *pictures(size="16x16", duration=0.2), "-c:v", "libx264", "-pix_fmt", "yuv420p")
    sound = clip("small.wav", *tones(duration=0.05))
    image = clip("small.png", *pictures(size="16x16", duration=0.04), "-frames:v", "1")
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(small.read_bytes()[:700])
    damaged = bytearray(small.read_bytes())
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    work: list[tuple[Any, Any]] = [
        (spdl.io.load_video, small),
        (spdl.io.load_video, small.read_bytes()),
        (spdl.io.load_audio, sound),
        (spdl.io.load_audio, sound.read_bytes()),
        (spdl.io.load_image, image),
        (spdl.io.load_image, image.read_bytes()),
        (spdl.io.load_video, broken),
        (spdl.io.load_video, bytes(damaged)),
        (spdl.io.load_image, b"nothing"),
        (spdl.io.load_audio, tmp_path / "missing.wav"),
    ]

    def load(times: int) -> None:
        for _ in range(times):
            for verb, source in work:
                with contextlib.suppress(spdl.io.MediaError):
                    spdl.io.to_numpy(verb(source))

    load(150)
    gc.collect()
    memory, descriptors = resident_kib(), open_descriptors()
    load(850)
    gc.collect()
    assert open_descriptors() == descriptors
    assert resident_kib() - memory < 4096


def test_audio_outlives_what_it_came_from() -> None:
    """The same for samples, packed and planar."""
    path = audio_clip("flac.flac").path
    expected = decoded_audio(path, 2)
    frames = spdl.io.decode_packets(spdl.io.demux_audio(path))
    array = spdl.io.to_numpy(spdl.io.convert_frames(frames))
    packed = spdl.io.to_numpy(spdl.io.load_audio(path, filter_desc="aformat=sample_fmts=flt"))
    del frames
    gc.collect()
    assert (array == expected.T).all()
    assert (packed == expected).all()
