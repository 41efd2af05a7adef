"""Clips, frames and graphs that the tests of filter graphs share."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import spdl.io
from spdl.io import FilterGraph
from tests.support.media import clip, h264, tones

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
