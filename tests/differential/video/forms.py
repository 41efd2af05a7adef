"""Containers and codecs that the ffmpeg tool writes, with the options that are drawn for them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

Options = Callable[[Random], list[str]]


@dataclass(frozen=True, slots=True)
class Form:
    """A container with a codec.

    Attributes:
        suffix: The file's suffix, by which the tool chooses the container.
        options: Draws the encoder and its options.
        container: Options of the container.
        passes: How often the encoder sees the pictures.
        has_times: Whether the container has presentation times, so that independent readers agree on them.
        copies: Suffixes of containers that packets can be copied into.
    """

    suffix: str
    options: Options
    container: tuple[str, ...] = ()
    passes: int = 1
    has_times: bool = True
    copies: tuple[str, ...] = ()


def _x264(draw: Random) -> list[str]:
    parameters = [f"keyint={draw.choice([5, 12, 30, 250])}", f"bframes={draw.choice([0, 1, 2, 3, 5])}"]
    parameters += [f"b-pyramid={draw.choice(['none', 'normal'])}", f"ref={draw.choice([1, 2, 4])}", "b-adapt=0"]
    parameters += [draw.choice(["open-gop=1", "open-gop=0", "open-gop=0", "intra-refresh=1"])]
    return ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-x264-params", ":".join(parameters)]


def _x265(draw: Random) -> list[str]:
    parameters = ["log-level=none", "pools=none", "frame-threads=1", f"keyint={draw.choice([6, 15, 60])}"]
    parameters += [f"bframes={draw.choice([0, 2, 4])}", f"open-gop={draw.choice([0, 1])}"]
    return ["-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-x265-params", ":".join(parameters)]


def _plain(encoder: str, *more: str, b_frames: bool = False) -> Options:
    def options(draw: Random) -> list[str]:
        chosen = ["-c:v", encoder, "-g", str(draw.choice([4, 9, 15])), "-q:v", "4", *more]
        return [*chosen, "-bf", str(draw.choice([0, 1, 2, 3]))] if b_frames else chosen

    return options


def _vpx(encoder: str) -> Options:
    def options(draw: Random) -> list[str]:
        lag = draw.choice([8, 16, 25])
        chosen = ["-c:v", encoder, "-b:v", draw.choice(["40k", "150k"]), "-g", str(draw.choice([8, 30, 128]))]
        chosen += ["-auto-alt-ref", "1", "-lag-in-frames", str(lag), "-deadline", "good", "-cpu-used", "5"]
        return [*chosen, "-arnr-maxframes", str(draw.choice([0, 7])), "-pix_fmt", "yuv420p"]

    return options


def _av1(draw: Random) -> list[str]:
    keys = str(draw.choice([8, 20]))
    return ["-c:v", "libaom-av1", "-cpu-used", "8", "-g", keys, "-lag-in-frames", "16", "-b:v", "60k"]


_YUV = "-pix_fmt", "yuv420p"
_FRAGMENTED = "-movflags", "+frag_keyframe+empty_moov+default_base_moof"
_MPEG4 = _plain("mpeg4", *_YUV, b_frames=True)
_MPEG2 = _plain("mpeg2video", *_YUV, b_frames=True)
_MPEG1 = _plain("mpeg1video", *_YUV, b_frames=True)
_XVID = _plain("libxvid", *_YUV, b_frames=True)
_THEORA = _plain("libtheora", *_YUV)
_MJPEG = _plain("mjpeg", "-pix_fmt", "yuvj420p")
_FFV1 = _plain("ffv1", *_YUV)

FORMS: Final[dict[str, Form]] = {
    "mp4/h264": Form("mp4", _x264, copies=("mov", "mkv", "ts", "flv", "nut")),
    "mp4/hevc": Form("mp4", _x265, copies=("mov", "mkv", "ts")),
    "mp4/mpeg4": Form("mp4", _MPEG4, copies=("mov", "mkv", "nut")),
    "mp4/mpeg2": Form("mp4", _MPEG2, copies=("mkv",)),
    "mp4/vp9": Form("mp4", _vpx("libvpx-vp9"), passes=2, copies=("mkv", "webm")),
    "mp4/av1": Form("mp4", _av1, copies=("mkv", "webm")),
    "fragmented mp4/h264": Form("mp4", _x264, _FRAGMENTED, copies=("mkv", "ts")),
    "fragmented mp4/hevc": Form("mp4", _x265, _FRAGMENTED, copies=("mkv",)),
    "mov/h264": Form("mov", _x264, copies=("mp4", "mkv")),
    "mov/prores": Form("mov", _plain("prores_ks"), copies=("mkv",)),
    "mov/mjpeg": Form("mov", _MJPEG, copies=("mkv", "avi")),
    "3gp/mpeg4": Form("3gp", _MPEG4, copies=("mp4",)),
    "3gp/h264": Form("3gp", _x264, copies=("mkv",)),
    "mkv/h264": Form("mkv", _x264, copies=("mp4", "ts", "mov")),
    "mkv/hevc": Form("mkv", _x265, copies=("mp4", "ts")),
    "mkv/mpeg4": Form("mkv", _MPEG4, copies=("mp4",)),
    "mkv/mpeg2": Form("mkv", _MPEG2, copies=("ts", "mp4")),
    "mkv/theora": Form("mkv", _THEORA, copies=("ogv",)),
    "mkv/ffv1": Form("mkv", _FFV1, copies=("avi", "nut")),
    "mkv/vp8": Form("mkv", _vpx("libvpx"), passes=2, copies=("webm",)),
    "webm/vp8": Form("webm", _vpx("libvpx"), passes=2, copies=("mkv", "ivf", "avi")),
    "webm/vp9": Form("webm", _vpx("libvpx-vp9"), passes=2, copies=("mkv", "mp4", "ivf")),
    "webm/av1": Form("webm", _av1, copies=("mkv", "mp4")),
    "avi/h264": Form("avi", _x264, has_times=False),
    "avi/mpeg4": Form("avi", _MPEG4, has_times=False),
    "avi/xvid": Form("avi", _XVID, has_times=False),
    "avi/msmpeg4": Form("avi", _plain("msmpeg4", *_YUV), copies=("mkv",)),
    "avi/mjpeg": Form("avi", _MJPEG, copies=("mkv", "mov")),
    "ts/h264": Form("ts", _x264, copies=("mp4", "mkv")),
    "ts/hevc": Form("ts", _x265, copies=("mp4", "mkv")),
    "ts/mpeg2": Form("ts", _MPEG2, copies=("mkv", "mp4")),
    "mpg/mpeg1": Form("mpg", _MPEG1, has_times=False),
    "mpg/mpeg2": Form("vob", _MPEG2, has_times=False),
    "flv/h264": Form("flv", _x264, copies=("mp4", "mkv")),
    "flv/flv1": Form("flv", _plain("flv", *_YUV), copies=("mkv",)),
    "ogv/theora": Form("ogv", _THEORA, copies=("mkv",)),
    "nut/h264": Form("nut", _x264, copies=("mkv", "mp4")),
    "nut/mpeg4": Form("nut", _MPEG4, copies=("mkv",)),
    "mxf/mpeg2": Form("mxf", _MPEG2),
    "asf/wmv2": Form("asf", _plain("wmv2", *_YUV), copies=("mkv",)),
    "raw/h264": Form("h264", _x264, has_times=False),
    "raw/hevc": Form("hevc", _x265, has_times=False),
    "raw/mpeg4": Form("m4v", _MPEG4, has_times=False),
    "raw/mpeg2": Form("m2v", _MPEG2, has_times=False),
    "ivf/vp8": Form("ivf", _vpx("libvpx"), passes=2, copies=("webm", "mkv")),
    "ivf/vp9": Form("ivf", _vpx("libvpx-vp9"), passes=2, copies=("webm", "mp4")),
    "gif": Form("gif", _plain("gif", "-pix_fmt", "gray")),
    "apng": Form("apng", _plain("apng", "-pix_fmt", "gray")),
}


def forms_of(are_meant: Callable[[str, Form], bool]) -> list[str]:
    """The names of the forms for which ``are_meant(name, form)`` holds."""
    return [name for name, form in FORMS.items() if are_meant(name, form)]


def codec_of(name: str) -> str:
    """The codec of a form."""
    return name.split("/")[-1]


#: Encoders that take most of the time of all cells; of each, one form is tried as it is made.
_SLOW_FORMS = forms_of(lambda name, _: codec_of(name) in ("vp8", "vp9", "av1", "hevc"))
SLOW_TWINS = [name for name in _SLOW_FORMS if name not in ("webm/vp8", "webm/vp9", "mp4/av1", "ts/hevc")]
#: Cells of other codecs in containers that other cells try.
TWINS = [
    *_SLOW_FORMS,
    "mov/prores",
    "3gp/mpeg4",
    "3gp/h264",
    "nut/mpeg4",
    "mkv/theora",
    "mp4/mpeg2",
    "fragmented mp4/h264",
]
