"""Filter graphs: what goes in and what comes out. The ffmpeg tool and NumPy judge."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io import FilterGraph, get_abuffer_desc, get_buffer_desc
from tests.io.filtering import INPUT, array, decoded, run, sound, take, video
from tests.support.media import decoded_audio, decoded_video, run_ffmpeg

# --------------------------------------------------------------------------------------------- in here, out there


def test_video_passes_through() -> None:
    """Every frame comes out as it went in, at its time."""
    codec, frames = decoded(video())
    times = frames.get_timestamps()
    graph = FilterGraph(f"{get_buffer_desc(codec)},format=rgb24,buffersink")
    graph.add_frames(frames)
    graph.flush()
    result = graph.get_frames()
    assert isinstance(result, spdl.io.VideoFrames)
    assert result.get_timestamps() == times
    assert (result.width, result.height, result.pix_fmt) == (64, 48, "rgb24")
    np.testing.assert_array_equal(array(result), decoded_video(video(), "rgb24", (48, 64, 3)))


def test_audio_passes_through() -> None:
    """Every sample comes out as it went in."""
    codec, frames = decoded(sound())
    result = run(f"{get_abuffer_desc(codec, label='x')},aformat=sample_fmts=flt,abuffersink", x=frames)
    assert isinstance(result, spdl.io.AudioFrames)
    np.testing.assert_array_equal(array(result), decoded_audio(sound(), 2))


def test_image_passes_through(tmp_path: Path) -> None:
    """What comes out of pictures is video, of one frame here."""
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(6, 8, 3)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    packets = spdl.io.demux_image(tmp_path / "x.png")
    assert packets.codec is not None
    description = f"{get_buffer_desc(packets.codec)},hflip,buffersink"
    graph = FilterGraph(description)
    graph.add_frames(spdl.io.decode_packets(packets, filter_desc=None))
    graph.flush()
    result = graph.get_frames()
    assert isinstance(result, spdl.io.VideoFrames)
    np.testing.assert_array_equal(array(result), pixels[None, :, ::-1])


def test_frames_come_out_little_by_little() -> None:
    """Giving a frame at a time gives the same as giving all at once; nothing ready is ``None``."""
    codec, frames = decoded(video())
    graph = FilterGraph(f"{get_buffer_desc(codec)},hflip,format=rgb24,buffersink")
    assert graph.get_frames() is None
    batches = []
    for index in range(len(frames)):
        graph.add_frames(frames[[index]])
        batches.append(graph.get_frames())
        assert graph.get_frames() is None
    graph.flush()
    assert graph.get_frames() is None
    np.testing.assert_array_equal(
        np.concatenate([array(batch) for batch in batches]),
        decoded_video(video(), "rgb24", (48, 64, 3), "-vf", "hflip"),
    )


def test_flush_gives_what_was_held_back() -> None:
    """A filter that needs all frames gives them at the end; a second flush changes nothing."""
    codec, frames = decoded(video())
    graph = FilterGraph(f"{get_buffer_desc(codec)},reverse,format=rgb24,buffersink")
    graph.add_frames(frames)
    assert graph.get_frames() is None
    graph.flush()
    graph.flush()
    np.testing.assert_array_equal(array(graph.get_frames()), decoded_video(video(), "rgb24", (48, 64, 3))[::-1])
    assert graph.get_frames() is None


def test_time_stamps_are_converted() -> None:
    """An input may have another time base than the frames: the seconds stay."""
    _, frames = decoded(video())
    times = frames.get_timestamps()
    result = run(f"buffer@x={INPUT.replace('12800', '1000')},null,buffersink", x=frames)
    assert result.time_base == (1, 1000)
    assert result.get_timestamps() == pytest.approx(times, abs=1e-9)


# ------------------------------------------------------------------------------------------------------- several ends


def test_two_inputs_are_joined() -> None:
    """Each input has a name, and gets the frames that are given to it."""
    upper, lower = decoded(video())[1], decoded(video())[1]
    graph = FilterGraph(
        f"buffer@top={INPUT},format=rgb24[a];buffer@bottom={INPUT},hflip,format=rgb24[b];[a][b]vstack,buffersink"
    )
    graph.add_frames(upper, key="buffer@top")
    assert graph.get_frames() is None
    graph.add_frames(lower, key="buffer@bottom")
    expected = decoded_video(video(), "rgb24", (48, 64, 3))
    flipped = decoded_video(video(), "rgb24", (48, 64, 3), "-vf", "hflip")
    graph.flush()
    np.testing.assert_array_equal(array(graph.get_frames()), np.concatenate([expected, flipped], axis=1))


def test_overlay_is_that_of_the_tool() -> None:
    """A small picture on a large one, as the ffmpeg tool draws it."""
    chain = "[1:v]scale=16:12[small];[0:v][small]overlay=x=4:y=6,format=rgb24"
    raw = run_ffmpeg("-i", video(), "-i", video(), "-filter_complex", chain, "-f", "rawvideo", "-")
    result = run(
        f"buffer@large={INPUT}[large];buffer@small={INPUT},scale=16:12[small];"
        "[large][small]overlay=x=4:y=6,format=rgb24,buffersink",
        large=decoded(video())[1],
        small=decoded(video())[1],
    )
    np.testing.assert_array_equal(array(result), np.frombuffer(raw, np.uint8).reshape(-1, 48, 64, 3))


def test_two_outputs_have_their_own_frames() -> None:
    """What was read from one is still there for the other."""
    graph = FilterGraph(f"buffer={INPUT},format=rgb24,split[a][b];[a]buffersink@plain;[b]scale=32:24,buffersink@half")
    graph.add_frames(decoded(video())[1])
    graph.flush()
    plain, half = graph.get_frames(key="buffersink@plain"), graph.get_frames(key="buffersink@half")
    np.testing.assert_array_equal(array(plain), decoded_video(video(), "rgb24", (48, 64, 3)))
    assert array(half).shape == (10, 24, 32, 3)


def test_sound_becomes_pictures() -> None:
    """A waveform, as the ffmpeg tool draws it."""
    chain = "showwaves=s=64x32:r=25,format=rgb24"
    raw = run_ffmpeg("-i", sound(), "-filter_complex", chain, "-f", "rawvideo", "-fps_mode", "passthrough", "-")
    codec, frames = decoded(sound())
    result = run(f"{get_abuffer_desc(codec, label='x')},{chain},buffersink", x=frames)
    assert isinstance(result, spdl.io.VideoFrames)
    np.testing.assert_array_equal(array(result), np.frombuffer(raw, np.uint8).reshape(-1, 32, 64, 3))


def test_graph_without_inputs_gives_frames() -> None:
    """Sources of FFmpeg's are sources too, and a graph of them that never ends gives some at a time."""
    graph = FilterGraph("testsrc=size=16x12:rate=25,buffersink")
    first, second = take(graph), take(graph)
    assert 0 < len(first) <= 256
    assert second.get_timestamps()[0] == pytest.approx(first.get_timestamps()[-1] + 0.04)
    with pytest.raises(spdl.io.FilterError, match="it has none"):
        graph.add_frames(decoded(video())[1])


def test_filter_that_repeats_for_ever_can_be_read() -> None:
    """Each call returns."""
    graph = FilterGraph(f"buffer={INPUT},loop=-1:size=2,buffersink")
    graph.add_frames(decoded(video())[1])
    assert len(take(graph)) < 1000
    assert len(take(graph)) < 1000


# ------------------------------------------------------------------------------------------------ lifetime and threads


def test_frames_outlive_their_graph() -> None:
    """And graphs their frames, in any order."""
    graph = FilterGraph(f"buffer={INPUT},format=rgb24,buffersink")
    graph.add_frames(decoded(video())[1])
    result = graph.get_frames()
    del graph
    gc.collect()
    np.testing.assert_array_equal(array(result), decoded_video(video(), "rgb24", (48, 64, 3)))


def test_clones_are_not_written_to() -> None:
    """A filter that draws into its input gets memory of its own."""
    frames = decoded(video())[1]
    clone = frames.clone()
    run(f"buffer@x={INPUT},drawbox=color=white:t=fill,buffersink", x=frames)
    graph = FilterGraph(f"buffer={INPUT},format=rgb24,buffersink")
    graph.add_frames(clone)
    np.testing.assert_array_equal(array(graph.get_frames()), decoded_video(video(), "rgb24", (48, 64, 3)))


def test_graph_may_be_left_with_frames_in_it() -> None:
    """Frames that nobody took go with it."""
    graph = FilterGraph(f"buffer={INPUT},split[a][b];[a]buffersink@a;[b]buffersink@b")
    graph.add_frames(decoded(video())[1])
    assert graph.get_frames(key="buffersink@a") is not None


def test_graphs_run_side_by_side() -> None:
    """Each thread with its own graph gets what one thread alone gets."""
    expected = decoded_video(video(), "rgb24", (48, 64, 3), "-vf", "vflip")

    def work(frames: Any) -> Any:
        return array(run(f"buffer@x={INPUT},vflip,format=rgb24,buffersink", x=frames))

    frames = decoded(video())[1]
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(work, [frames.clone() for _ in range(16)]):
            np.testing.assert_array_equal(result, expected)


def test_one_graph_in_several_threads_is_an_error_or_works() -> None:
    """A call while another is at it raises; no frame is lost or doubled, and nothing crashes."""
    graph = FilterGraph(f"buffer={INPUT},null,buffersink")
    frames = decoded(video())[1]
    gate = threading.Barrier(4)

    def insist(call: Callable[[], Any]) -> Any:
        while True:
            try:
                return call()
            except spdl.io.MediaError as exc:
                assert "another thread is using" in str(exc)  # noqa: PT017

    def work(mine: list[Any]) -> int:
        gate.wait()
        count = 0
        for each in mine:
            insist(lambda each=each: graph.add_frames(each))  # type: ignore[misc]
            got = insist(graph.get_frames)
            count += 0 if got is None else len(got)
        return count

    with ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(work, [frames.clone() for _ in range(10)]) for _ in range(4)]
    graph.flush()
    rest = graph.get_frames()
    assert sum(count.result() for count in counts) + (0 if rest is None else len(rest)) == 400
