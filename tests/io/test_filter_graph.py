"""Filter graphs: what goes in, what comes out, and what is refused. The ffmpeg tool and NumPy judge."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from spdl.io import FilterGraph, get_abuffer_desc, get_buffer_desc
from tests.support.media import clip, decoded_audio, decoded_video, h264, run_ffmpeg, tones

SIZE = "64x48"
INPUT = f"video_size={SIZE}:pix_fmt=yuv420p:time_base=1/12800:pixel_aspect=1/1"


def video(duration: float = 0.4) -> Path:
    return h264(duration=duration)


def sound() -> Path:
    expression = "0.5*sin(440*2*PI*t)|0.5*cos(220*2*PI*t)"
    return clip("a.wav", *tones(duration=0.2, expression=expression), "-c:a", "pcm_s16le")


def decoded(path: Path) -> tuple[Any, Any]:
    """Codec and frames of a file, the frames as they come out of the decoder."""
    with spdl.io.Demuxer(path) as demuxer:
        packets = demuxer.demux_audio() if demuxer.has_audio() else demuxer.demux_video()
        return packets.codec, spdl.io.decode_packets(packets, filter_desc=None)


def array(frames: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def take(graph: FilterGraph) -> Any:
    """What is ready at the only output."""
    return graph.get_frames()


def run(description: str, **frames: Any) -> Any:
    """What comes out of a graph of one output; keywords are the labels of the inputs."""
    graph = FilterGraph(description)
    for label, each in frames.items():
        graph.add_frames(each, key=f"{'abuffer' if isinstance(each, spdl.io.AudioFrames) else 'buffer'}@{label}")
    graph.flush()
    return graph.get_frames()


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


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ("nothing", "No such filter: 'nothing'"),
        ("", "No such filter: ''"),
        ("testsrc,scale=size=3,buffersink", "Option 'size' not found|Invalid size '3'"),
        ("testsrc,scale=w=wide,buffersink", "wide"),
        ("testsrc,crop=5000:5000,buffersink", "Invalid too big or non positive size"),
        ("testsrc,format=pix_fmts=colourful,buffersink", "Invalid pixel format 'colourful'"),
        ("testsrc,abuffersink", "Media type mismatch"),
        ("scale=8:8", "not connected to any source"),
        ("testsrc", "not connected to any destination"),
        ("buffer=1,buffersink", "Invalid parameters provided|Option not found|Error"),
        ("movie=/nowhere.mp4,buffersink", "nowhere"),
        ("testsrc\0,buffersink", "no null characters"),
    ],
)
def test_bad_description_is_an_error_with_the_reasons_of_ffmpeg(description: str, words: str) -> None:
    """The message names what FFmpeg does not like, and the description."""
    with pytest.raises(spdl.io.FilterError, match=words) as caught:
        FilterGraph(description)
    assert str(caught.value).startswith("cannot make the filter graph '")


def test_description_must_be_text() -> None:
    """Anything else is a TypeError."""
    with pytest.raises(TypeError):
        FilterGraph(None)  # type: ignore[arg-type]


def _two_ended() -> FilterGraph:
    return FilterGraph(
        f"buffer@in0={INPUT}[a];buffer@in1={INPUT}[b];[a][b]vstack,split[x][y];[x]buffersink@out0;[y]buffersink@out1"
    )


def test_unknown_key_is_an_index_error_that_lists_the_keys() -> None:
    """The frames are still there for the right one."""
    frames = decoded(video())[1]
    graph = _two_ended()
    for key in ("in0", "", "buffersink@out0", "Parsed_vstack_2"):
        with pytest.raises(spdl.io.UnknownNodeError, match="buffer@in0, buffer@in1"):
            graph.add_frames(frames, key=key)
    assert len(frames) == 10
    with pytest.raises(IndexError, match="buffersink@out0, buffersink@out1"):
        graph.get_frames(key="out0")


def test_key_is_needed_where_there_are_several() -> None:
    """The message lists them; the frames are not used up."""
    frames = decoded(video())[1]
    graph = _two_ended()
    with pytest.raises(spdl.io.FilterError, match=r"Key must be provided .* buffer@in0, buffer@in1"):
        graph.add_frames(frames)
    assert len(frames) == 10
    with pytest.raises(spdl.io.FilterError, match=r"Key must be provided .* buffersink@out0, buffersink@out1"):
        graph.get_frames()


def test_names_that_ffmpeg_gives_are_keys() -> None:
    """A node without a label is known by the name that ``dump`` shows."""
    graph = FilterGraph(f"buffer={INPUT},hflip,buffersink")
    for name in ("Parsed_buffer_0", "Parsed_hflip_1", "Parsed_buffersink_2"):
        assert name in graph.dump()
    graph.add_frames(decoded(video())[1], key="Parsed_buffer_0")
    frames: Any = graph.get_frames(key="Parsed_buffersink_2")
    assert len(frames) == 10
    assert repr(graph) == "FilterGraph<inputs=[Parsed_buffer_0], outputs=[Parsed_buffersink_2]>"


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (f"buffer={INPUT.replace('64x48', '48x64')},buffersink", "48x64 yuv420p, the frames are 64x48 yuv420p"),
        (f"buffer={INPUT.replace('yuv420p', 'rgb24')},buffersink", "64x48 rgb24, the frames are 64x48 yuv420p"),
        ("abuffer=time_base=1/8000:sample_rate=8000:sample_fmt=s16:channel_layout=stereo,abuffersink", "audio"),
    ],
)
def test_video_that_does_not_match_is_refused(description: str, words: str) -> None:
    """The message names what the input takes, and what it was given."""
    with pytest.raises(spdl.io.FilterError, match=words) as caught:
        FilterGraph(description).add_frames(decoded(video())[1])
    assert caught.value.source == str(video())


@pytest.mark.parametrize(
    ("rate", "fmt", "layout"), [(8000, "fltp", "stereo"), (44100, "s16", "stereo"), (8000, "s16", "mono")]
)
def test_audio_that_does_not_match_is_refused(rate: int, fmt: str, layout: str) -> None:
    """Rate, sample format and channels all count."""
    abuffer = f"abuffer=time_base=1/8000:sample_rate={rate}:sample_fmt={fmt}:channel_layout={layout}"
    with pytest.raises(spdl.io.FilterError, match=f"{rate} Hz {layout} {fmt}, the frames are 8000 Hz stereo s16"):
        FilterGraph(f"{abuffer},abuffersink").add_frames(decoded(sound())[1])


def test_frames_are_consumed() -> None:
    """Using them again is an error; a clone is not touched."""
    frames = decoded(video())[1]
    clone = frames.clone()
    graph = FilterGraph(f"buffer={INPUT},hflip,buffersink")
    graph.add_frames(frames)
    with pytest.raises(spdl.io.ConsumedError):
        graph.add_frames(frames)
    graph.add_frames(clone)


def test_clones_are_not_written_to() -> None:
    """A filter that draws into its input gets memory of its own."""
    frames = decoded(video())[1]
    clone = frames.clone()
    run(f"buffer@x={INPUT},drawbox=color=white:t=fill,buffersink", x=frames)
    graph = FilterGraph(f"buffer={INPUT},format=rgb24,buffersink")
    graph.add_frames(clone)
    np.testing.assert_array_equal(array(graph.get_frames()), decoded_video(video(), "rgb24", (48, 64, 3)))


def test_frames_after_the_end_are_refused() -> None:
    """A graph that was flushed takes no more."""
    graph = FilterGraph(f"buffer={INPUT},buffersink")
    graph.flush()
    with pytest.raises(spdl.io.FilterError, match="the graph was flushed"):
        graph.add_frames(decoded(video())[1])


@pytest.mark.parametrize("frames", [None, [], 3, "frames"])
def test_what_are_no_frames_is_a_type_error(frames: Any) -> None:
    """The message lists what is accepted."""
    with pytest.raises(TypeError, match="frames must be AudioFrames, VideoFrames or ImageFrames"):
        FilterGraph(f"buffer={INPUT},buffersink").add_frames(frames)


def test_no_frames_are_fine() -> None:
    """Frames of length 0 change nothing."""
    frames = decoded(video())[1]
    graph = FilterGraph(f"buffer={INPUT},buffersink")
    graph.add_frames(frames[[]])
    graph.flush()
    assert graph.get_frames() is None


# ------------------------------------------------------------------------------------------------ lifetime and threads


def test_frames_outlive_their_graph() -> None:
    """And graphs their frames, in any order."""
    graph = FilterGraph(f"buffer={INPUT},format=rgb24,buffersink")
    graph.add_frames(decoded(video())[1])
    result = graph.get_frames()
    del graph
    gc.collect()
    np.testing.assert_array_equal(array(result), decoded_video(video(), "rgb24", (48, 64, 3)))


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
