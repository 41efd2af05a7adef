"""FFmpeg's log belongs to the process: what others in it set is neither changed nor missed."""

import sys

import pytest

from spdl.io.utils import get_native_info
from tests.support.child import run_child
from tests.support.components import skip_if_bundled
from tests.support.media import clip, pictures

pytestmark = pytest.mark.slow

_START = """
import ctypes
from pathlib import Path
avutil = ctypes.CDLL({avutil!r})
heard = []
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
callback = Callback(lambda context, level, text, arguments: heard.append((level, text)))

def say(text):
    avutil.av_log(None, 16, text)

import spdl.io
from spdl.io.utils import get_ffmpeg_log_level, set_ffmpeg_log_level

def use():
    try:
        spdl.io.FilterGraph("nothing")
    except spdl.io.FilterError as error:
        assert "No such filter: 'nothing'" in str(error)
    video = bytearray(Path({video!r}).read_bytes())
    for i in range(2000, len(video), 50):
        video[i] ^= 0x55
    config = spdl.io.decode_config(decoder_options={{"threads": "4"}})
    lenient = spdl.io.demux_config(tolerate_errors=True)
    packets = spdl.io.demux_video(video, demux_config=lenient)
    try:
        spdl.io.decode_packets(packets, decode_config=config)
    except spdl.io.MediaError:
        pass
"""


def _run(script: str) -> None:
    skip_if_bundled("nobody else finds its log")
    library = next(each for each in get_native_info().libraries if each.name == "libavutil")
    video = clip("log.mkv", *pictures(duration=1), "-c:v", "mpeg4")
    run_child(_START.format(avutil=library.path, video=str(video)) + script).check()


def test_neither_loading_nor_use_changes_the_level() -> None:
    """Of others; of ours it is 8, and what is above it is not printed, on no thread."""
    _run("""
before = avutil.av_log_get_level()
assert get_ffmpeg_log_level() == 8
use()
assert avutil.av_log_get_level() == before
set_ffmpeg_log_level(-8)
assert avutil.av_log_get_level() == get_ffmpeg_log_level() == -8
""")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, what was set cannot be found")
def test_callback_of_others_goes_on_hearing_them() -> None:
    """Loading changes nothing; after the first use, it still gets what is not ours, and nothing of ours."""
    _run("""
avutil.av_log_set_callback(callback)
get_ffmpeg_log_level()
say(b"loaded")
use()
say(b"used")
use()
say(b"and used again")
assert heard == [(16, b"loaded"), (16, b"used"), (16, b"and used again")], heard
""")


def test_callback_that_is_set_later_is_left_alone() -> None:
    """It hears all; errors of ours then lack FFmpeg's words and nothing else."""
    _run("""
spdl.io.FilterGraph("color=size=4x4:rate=1:duration=1,buffersink")
avutil.av_log_set_callback(callback)
say(b"theirs")
try:
    spdl.io.FilterGraph("nothing")
except spdl.io.FilterError as error:
    assert "'nothing'" in str(error)
assert (16, b"theirs") in heard and len(heard) > 1
""")
