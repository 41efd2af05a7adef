"""PyAV (tried with 18.1.0, which brings FFmpeg 8.1): all pictures with their times.

Not to be believed for the times of B-frames in AVI and ASF (decoding order), nor of raw streams (none).
"""

from pathlib import Path

from tests.differential.video.films import SHAPE, Shown


def shown_by_pyav(path: Path) -> list[Shown]:
    """Every picture that comes out, in that order, with its time in ticks of the stream."""
    import av

    height, width = SHAPE
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        return [
            Shown(int(frame.pts or 0), frame.reformat(width, height, "gray").to_ndarray())
            for frame in container.decode(stream)
        ]
