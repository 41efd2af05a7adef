"""Filter graphs: what is refused, and what is said about it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import spdl.io
from spdl.io import FilterGraph
from tests.io.filtering import INPUT, decoded, sound, video


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ("nothing", "No such filter: 'nothing'"),
        ("", "No such filter: ''|No filters specified"),
        ("testsrc,scale=size=3,buffersink", "Option 'size' not found|Invalid size '3'"),
        ("testsrc,scale=w=wide,buffersink", "wide"),
        ("testsrc,crop=5000:5000,buffersink", "Invalid too big or non positive size"),
        ("testsrc,format=pix_fmts=colourful,buffersink", "Invalid pixel format 'colourful'"),
        ("testsrc,abuffersink", "Media type mismatch"),
        ("scale=8:8", "not connected to any source"),
        ("testsrc", "not connected to any destination"),
        ("buffer=1,buffersink", "Invalid parameters provided|Option not found|Error"),
        ("movie=/nowhere.mp4,buffersink", "nowhere"),
        ("sine,aeval,abuffersink", "expressions|aeval"),  # FFmpeg says that it has no memory
        ("testsrc\0,buffersink", "contains a null character"),
    ],
)
def test_bad_description_is_an_error_with_the_reasons_of_ffmpeg(description: str, words: str) -> None:
    """The message names what FFmpeg does not like, and the description."""
    with pytest.raises(spdl.io.FilterError, match=words) as caught:
        FilterGraph(description)
    assert str(caught.value).startswith("cannot make the filter graph '")


def test_each_thread_hears_its_own_reasons() -> None:
    """FFmpeg has one log for all threads; an error has only what was said to the call that failed."""
    gate = threading.Barrier(8)

    def reason(index: int) -> str:
        gate.wait()
        texts = set()
        for _ in range(20):
            with pytest.raises(spdl.io.FilterError) as caught:
                FilterGraph(f"nothing{index}")
            texts.add(str(caught.value))
        return texts.pop() if len(texts) == 1 else str(texts)

    with ThreadPoolExecutor(8) as pool:
        reasons = list(pool.map(reason, range(8)))
    for index, said in enumerate(reasons):
        assert said.startswith(f"cannot make the filter graph 'nothing{index}': No such filter: 'nothing{index}'"), said
        assert said.count("No such filter") == 1, said


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
