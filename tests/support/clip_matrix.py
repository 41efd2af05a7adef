"""The clips for all tests of media: codecs, containers, formats and the unusual cases of each.

This module has only descriptions; ``path`` makes the file with the ffmpeg tool at its first use. The pictures are
small and short, but each clip of video has several groups of pictures unless its codec has key frames only.
"""

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .media import clip, ffmpeg_command, output_about, pictures, tones

SHORT = pictures(duration=0.8)
ODD = pictures(size="51x37", duration=0.4, source="testsrc")  # testsrc2 is even
X264 = ("-c:v", "libx264", "-preset", "veryfast", "-g", "6", "-bf", "2")
X265 = ("-c:v", "libx265", "-preset", "ultrafast")
AOM = ("-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-g", "6")
VP9 = ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "6")


@dataclass(frozen=True, slots=True)
class VideoClip:
    """A file with video.

    Attributes:
        name: The file name, also in test names.
        arguments: The arguments of the ffmpeg tool.
        pix_fmt: The pixel format of the decoder.
        formats: The formats in which pictures are compared; the decoder's own if it has an array layout.
        size: The width and height.
        then: A second run of the tool on the first file: options before and after the input.
        decoder: A decoder to use instead of the codec's default.
    """

    name: str
    arguments: tuple[str, ...]
    pix_fmt: str = "yuv420p"
    formats: tuple[str, ...] = ("yuv420p", "rgb24")
    size: tuple[int, int] = (64, 48)
    then: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    decoder: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def needs(self) -> tuple[str, ...]:
        """What FFmpeg has to have, which not every build has."""
        return () if self.decoder is None else (f"decoder {self.decoder}",)

    @property
    def path(self) -> Path:
        if self.then is None:
            return clip(self.name, *self.arguments)
        first = clip("first" + Path(self.name).suffix, *self.arguments)
        return clip(self.name, *self.then[0], "-i", str(first), *self.then[1])


@dataclass(frozen=True, slots=True)
class AudioClip:
    """A file with audio; see ``VideoClip``."""

    name: str
    arguments: tuple[str, ...]
    num_channels: int = 1
    sample_rate: int = 8000

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> Path:
        return clip(self.name, *self.arguments)


def _x265(more: str = "") -> tuple[str, ...]:
    return (*X265, "-x265-params", "log-level=none:pools=1:frame-threads=1:keyint=6:bframes=2" + more)


VIDEO_CLIPS = (
    # containers
    VideoClip("h264.mp4", (*SHORT, *X264, "-pix_fmt", "yuv420p")),
    VideoClip("h264.mkv", (*SHORT, *X264, "-pix_fmt", "yuv420p")),
    VideoClip("h264.mov", (*SHORT, *X264, "-pix_fmt", "yuv420p")),
    VideoClip("h264.ts", (*SHORT, *X264, "-pix_fmt", "yuv420p")),
    VideoClip("h264.flv", (*SHORT, *X264, "-pix_fmt", "yuv420p")),
    VideoClip("fragmented.mp4", (*SHORT, *X264, "-pix_fmt", "yuv420p", "-movflags", "frag_keyframe+empty_moov")),
    VideoClip("mpeg4.avi", (*SHORT, "-c:v", "mpeg4", "-g", "6", "-pix_fmt", "yuv420p")),
    VideoClip("mpeg4_b.mp4", (*SHORT, "-c:v", "mpeg4", "-g", "6", "-bf", "2", "-pix_fmt", "yuv420p")),
    VideoClip("mpeg2.ts", (*SHORT, "-c:v", "mpeg2video", "-g", "6", "-bf", "2", "-pix_fmt", "yuv420p")),
    VideoClip("mpeg1.mpg", (*SHORT, "-c:v", "mpeg1video", "-g", "6", "-bf", "2", "-pix_fmt", "yuv420p")),
    VideoClip("theora.ogv", (*SHORT, "-c:v", "libtheora", "-g", "6", "-pix_fmt", "yuv420p")),
    VideoClip("vp8.webm", (*SHORT, "-c:v", "libvpx", "-deadline", "realtime", "-g", "6", "-pix_fmt", "yuv420p")),
    VideoClip("vp9.webm", (*SHORT, *VP9, "-pix_fmt", "yuv420p")),
    VideoClip("vp9_alt_ref.webm", (*SHORT, "-c:v", "libvpx-vp9", "-auto-alt-ref", "6", "-lag-in-frames", "12", "-g",
                                   "8", "-cpu-used", "5", "-pix_fmt", "yuv420p")),
    VideoClip("av1.mp4", (*SHORT, *AOM, "-pix_fmt", "yuv420p")),
    VideoClip("av1_alt_ref.mkv", (*SHORT, "-c:v", "libaom-av1", "-cpu-used", "8", "-lag-in-frames", "12", "-g", "8",
                                  "-pix_fmt", "yuv420p")),
    VideoClip("hevc.mp4", (*SHORT, *_x265(), "-pix_fmt", "yuv420p")),
    VideoClip("hevc.ts", (*SHORT, *_x265(), "-pix_fmt", "yuv420p")),
    VideoClip("mjpeg.avi", (*SHORT, "-c:v", "mjpeg", "-pix_fmt", "yuvj420p"), "yuvj420p", ("yuvj420p", "rgb24")),
    VideoClip("ffv1.mkv", (*SHORT, "-c:v", "ffv1", "-g", "6", "-pix_fmt", "yuv420p")),
    VideoClip("raw.nut", (*SHORT, "-c:v", "rawvideo", "-pix_fmt", "rgb24"), "rgb24", ("rgb24", "bgr24")),
    # formats
    VideoClip("h264_422.mp4", (*SHORT, *X264, "-pix_fmt", "yuv422p"), "yuv422p", ("yuv422p", "rgb24")),
    VideoClip("h264_444.mp4", (*SHORT, *X264, "-pix_fmt", "yuv444p"), "yuv444p", ("yuv444p", "rgb24")),
    VideoClip("h264_gray.mp4", (*SHORT, *X264, "-pix_fmt", "gray"), "yuvj420p", ("yuvj420p", "gray")),
    VideoClip("h264_gbrp.mp4", (*SHORT, "-c:v", "libx264rgb", "-g", "6", "-pix_fmt", "rgb24"), "gbrp",
              ("gbrp", "rgb24")),
    VideoClip("h264_full_range.mp4", (*SHORT, *X264, "-pix_fmt", "yuvj420p"), "yuvj420p", ("yuvj420p", "rgb24")),
    VideoClip("h264_bt709.mp4", (*SHORT, *X264, "-pix_fmt", "yuv420p", "-colorspace", "bt709", "-color_primaries",
                                 "bt709", "-color_trc", "bt709")),
    VideoClip("h264_10bit.mp4", (*SHORT, *X264, "-pix_fmt", "yuv420p10le"), "yuv420p10le", ("rgb24", "rgb48le")),
    VideoClip("h264_422_10bit.mov", (*SHORT, *X264, "-pix_fmt", "yuv422p10le"), "yuv422p10le", ("rgb24", "yuv422p")),
    VideoClip("hevc_10bit.mkv", (*SHORT, *_x265(), "-pix_fmt", "yuv420p10le"), "yuv420p10le", ("rgb24", "rgb48le")),
    VideoClip("vp9_444.webm", (*SHORT, *VP9, "-pix_fmt", "yuv444p"), "yuv444p", ("yuv444p", "rgb24")),
    VideoClip("vp9_10bit.webm", (*SHORT, *VP9, "-pix_fmt", "yuv420p10le"), "yuv420p10le", ("rgb24",)),
    VideoClip("av1_10bit.mkv", (*SHORT, *AOM, "-pix_fmt", "yuv420p10le"), "yuv420p10le", ("rgb24", "rgb48le")),
    VideoClip("prores_422.mov", (*SHORT, "-c:v", "prores_ks", "-pix_fmt", "yuv422p10le"), "yuv422p10le",
              ("rgb24", "rgb48le")),
    VideoClip("prores_4444.mov", (*SHORT, "-c:v", "prores_ks", "-pix_fmt", "yuva444p10le"), "yuva444p12le",
              ("rgba", "rgb24")),
    # The decoder of libavcodec ignores the alpha layer of VP9, as the tool does.
    VideoClip("vp9_alpha.webm", (*SHORT, "-c:v", "libvpx-vp9", "-auto-alt-ref", "0", "-deadline", "realtime",
                                 "-cpu-used", "8", "-g", "6", "-pix_fmt", "yuva420p")),
    VideoClip("vp9_alpha_libvpx.webm", (*SHORT, "-c:v", "libvpx-vp9", "-auto-alt-ref", "0", "-deadline", "realtime",
                                        "-cpu-used", "8", "-g", "6", "-pix_fmt", "yuva420p"), "yuva420p", ("rgba",),
              decoder="libvpx-vp9"),
    VideoClip("png_alpha.mov", (*SHORT, "-c:v", "png", "-vf", "format=rgba,colorchannelmixer=aa=0.5"), "rgba",
              ("rgba", "rgb24")),
    VideoClip("ffv1_gray16.mkv", (*SHORT, "-c:v", "ffv1", "-pix_fmt", "gray16le"), "gray16le", ("gray16le", "rgb24")),
    # sizes
    VideoClip("odd_h264_444.mp4", (*ODD, *X264, "-pix_fmt", "yuv444p"), "yuv444p", ("yuv444p", "rgb24"), (51, 37)),
    VideoClip("odd_vp9.webm", (*ODD, *VP9, "-pix_fmt", "yuv420p"), "yuv420p", ("rgb24",), (51, 37)),
    VideoClip("odd_mjpeg.mkv", (*ODD, "-c:v", "mjpeg", "-pix_fmt", "yuvj422p"), "yuvj422p", ("rgb24",), (51, 37)),
    VideoClip("odd_mpeg4.mkv", (*ODD, "-c:v", "mpeg4", "-pix_fmt", "yuv420p"), "yuv420p", ("rgb24",), (51, 37)),
    VideoClip("cropped_h264.mp4", (*pictures(size="62x46", duration=0.4), *X264, "-pix_fmt", "yuv420p"), size=(62, 46)),
    VideoClip("tiny.mkv", (*pictures(size="16x2", duration=0.2), "-c:v", "ffv1", "-pix_fmt", "yuv420p"), size=(16, 2)),
    # time
    VideoClip("no_b.mp4", (*SHORT, "-c:v", "libx264", "-g", "6", "-bf", "0", "-pix_fmt", "yuv420p")),
    VideoClip("pyramid.mp4", (*SHORT, "-c:v", "libx264", "-g", "12", "-bf", "5", "-b_strategy", "0", "-x264-params",
                              "b-pyramid=normal:scenecut=0", "-pix_fmt", "yuv420p")),
    VideoClip("open_gop.mp4", (*SHORT, "-c:v", "libx264", "-x264-params", "open-gop=1:keyint=6:bframes=3:b-adapt=0",
                               "-pix_fmt", "yuv420p")),
    VideoClip("open_gop.mkv", (*SHORT, "-c:v", "libx264", "-x264-params", "open-gop=1:keyint=6:bframes=3:b-adapt=0",
                               "-pix_fmt", "yuv420p")),
    VideoClip("open_gop_hevc.mp4", (*SHORT, *_x265(":open-gop=1"), "-pix_fmt", "yuv420p")),
    VideoClip("variable_rate.mp4", (*SHORT, "-vf", "select='not(mod(n,3))+gt(n,12)'", "-fps_mode", "vfr", *X264,
                                    "-pix_fmt", "yuv420p")),
    VideoClip("variable_rate.mkv", (*SHORT, "-vf", "settb=1/1000,setpts=N*40+mod(N*7\\,30)", "-fps_mode", "passthrough",
                                    "-enc_time_base", "1/1000", *X264, "-pix_fmt", "yuv420p")),
    VideoClip("ntsc.mp4", (*pictures(rate="30000/1001", duration=0.6), *X264, "-pix_fmt", "yuv420p")),
    VideoClip("late_start.mkv", (*SHORT, "-vf", "setpts=PTS+3/TB", *X264, "-pix_fmt", "yuv420p")),
    VideoClip("edit_list.mp4", (*SHORT, *X264, "-pix_fmt", "yuv420p"), then=(("-ss", "0.3"), ("-c", "copy"))),
    VideoClip("edit_list.mov", (*SHORT, *X264, "-pix_fmt", "yuv420p"),
              then=(("-ss", "0.1"), ("-c", "copy", "-t", "0.4"))),
    VideoClip("cut.mkv", (*SHORT, *X264, "-pix_fmt", "yuv420p"), then=(("-ss", "0.3"), ("-c", "copy"))),
    VideoClip("one_frame.mp4", (*pictures(duration=0.04), *X264, "-pix_fmt", "yuv420p")),
    # the rest
    VideoClip("rotated.mp4", (*SHORT, *X264, "-pix_fmt", "yuv420p"),
              then=((), ("-c", "copy", "-metadata:s:v", "rotate=90"))),
    VideoClip("interlaced.mp4", (*SHORT, "-vf", "tinterlace=interleave_top", "-c:v", "libx264", "-g", "6", "-flags",
                                 "+ilme+ildct", "-pix_fmt", "yuv420p")),
    VideoClip("interlaced.ts", (*SHORT, "-vf", "tinterlace=interleave_top", "-c:v", "mpeg2video", "-g", "6", "-flags",
                                "+ilme+ildct", "-pix_fmt", "yuv420p")),
    VideoClip("with_sound.mp4", (*SHORT, *tones(duration=0.8), *X264, "-pix_fmt", "yuv420p", "-c:a", "aac")),
    VideoClip("with_sound.mkv", (*tones(duration=0.8), *SHORT, "-map", "0", "-map", "1", *X264, "-pix_fmt", "yuv420p",
                                 "-c:a", "libvorbis")),
    VideoClip("with_sound.ts", (*SHORT, *tones(48000, duration=0.8), *X264, "-pix_fmt", "yuv420p", "-c:a", "ac3")),
    VideoClip("slices.mp4", (*SHORT, *X264, "-x264-params", "slices=4", "-pix_fmt", "yuv420p")),
)  # fmt: skip

STEREO = "sin(440*2*PI*t)|0.5*sin(300*2*PI*t)"
SURROUND = "|".join(f"0.{i}*sin({100 * i}*2*PI*t)" for i in range(1, 7))
MONO_8K = tones(duration=0.7)
STEREO_44K = tones(44100, 0.5, STEREO)
STEREO_48K = tones(48000, 0.5, STEREO)
SURROUND_48K = (*tones(48000, 0.3, SURROUND), "-af", "aformat=channel_layouts=5.1")

AUDIO_CLIPS = (
    AudioClip("aac.mp4", (*STEREO_44K, "-c:a", "aac"), 2, 44100),
    AudioClip("aac.m4a", (*MONO_8K, "-c:a", "aac"), 1, 8000),
    AudioClip("aac.adts.aac", (*STEREO_44K, "-c:a", "aac", "-f", "adts"), 2, 44100),
    AudioClip("aac_51.mp4", (*SURROUND_48K, "-c:a", "aac"), 6, 48000),
    AudioClip("aac.ts", (*STEREO_48K, "-c:a", "aac"), 2, 48000),
    AudioClip("mp3.mp3", (*STEREO_44K, "-c:a", "libmp3lame"), 2, 44100),
    AudioClip("mp3_mono.mp3", (*tones(22050, 0.7), "-c:a", "libmp3lame"), 1, 22050),
    AudioClip("mp3_no_header.mp3", (*STEREO_44K, "-c:a", "libmp3lame", "-write_xing", "0", "-id3v2_version", "0"), 2,
              44100),
    AudioClip("mp3.mkv", (*STEREO_44K, "-c:a", "libmp3lame"), 2, 44100),
    AudioClip("mp2.mpg", (*STEREO_48K, "-c:a", "mp2"), 2, 48000),
    AudioClip("opus.ogg", (*STEREO_48K, "-c:a", "libopus"), 2, 48000),
    AudioClip("opus.webm", (*STEREO_48K, "-c:a", "libopus"), 2, 48000),
    AudioClip("opus_51.mkv", (*SURROUND_48K, "-c:a", "libopus", "-mapping_family", "1"), 6, 48000),
    AudioClip("vorbis.ogg", (*STEREO_44K, "-c:a", "libvorbis"), 2, 44100),
    AudioClip("vorbis.mkv", (*STEREO_44K, "-c:a", "libvorbis"), 2, 44100),
    AudioClip("flac.flac", (*STEREO_44K, "-c:a", "flac", "-sample_fmt", "s16"), 2, 44100),
    AudioClip("flac_24.flac", (*STEREO_48K, "-c:a", "flac", "-sample_fmt", "s32"), 2, 48000),
    AudioClip("flac.mkv", (*STEREO_44K, "-c:a", "flac", "-sample_fmt", "s16"), 2, 44100),
    AudioClip("flac_51.flac", (*SURROUND_48K, "-c:a", "flac", "-sample_fmt", "s16"), 6, 48000),
    AudioClip("alac.m4a", (*STEREO_44K, "-c:a", "alac", "-sample_fmt", "s16p"), 2, 44100),
    AudioClip("alac_24.m4a", (*STEREO_48K, "-c:a", "alac", "-sample_fmt", "s32p"), 2, 48000),
    AudioClip("ac3.ac3", (*SURROUND_48K, "-c:a", "ac3"), 6, 48000),
    AudioClip("u8.wav", (*MONO_8K, "-c:a", "pcm_u8"), 1, 8000),
    AudioClip("s16.wav", (*MONO_8K, "-c:a", "pcm_s16le"), 1, 8000),
    AudioClip("s24.wav", (*STEREO_48K, "-c:a", "pcm_s24le"), 2, 48000),
    AudioClip("s32.wav", (*STEREO_44K, "-c:a", "pcm_s32le"), 2, 44100),
    AudioClip("f32.wav", (*STEREO_44K, "-c:a", "pcm_f32le"), 2, 44100),
    AudioClip("f64.wav", (*MONO_8K, "-c:a", "pcm_f64le"), 1, 8000),
    AudioClip("s16_51.wav", (*SURROUND_48K, "-c:a", "pcm_s16le"), 6, 48000),
    AudioClip("s16_big_endian.mov", (*STEREO_44K, "-c:a", "pcm_s16be"), 2, 44100),
    AudioClip("s16.aiff", (*MONO_8K, "-c:a", "pcm_s16be"), 1, 8000),
    AudioClip("mulaw.au", (*MONO_8K, "-c:a", "pcm_mulaw"), 1, 8000),
    AudioClip("adpcm.wav", (*MONO_8K, "-c:a", "adpcm_ms"), 1, 8000),
    AudioClip("odd_rate.wav", (*tones(11127, 0.7), "-c:a", "pcm_s16le"), 1, 11127),
    AudioClip("odd_rate.flac", (*tones(37000, 0.5), "-c:a", "flac"), 1, 37000),
    AudioClip("three_channels.wav", (*tones(8000, 0.5, "t|2*t|0.1"), "-af", "aformat=channel_layouts=2.1", "-c:a",
                                     "pcm_s16le"), 3, 8000),
    AudioClip("with_pictures.mp4", (*SHORT, *STEREO_44K, *X264, "-pix_fmt", "yuv420p", "-c:a", "aac"), 2, 44100),
    AudioClip("with_pictures.avi", (*SHORT, *STEREO_44K, "-c:v", "mpeg4", "-c:a", "pcm_s16le"), 2, 44100),
)  # fmt: skip

PICTURES_IN_AUDIO = (
    ("cover.mp3", ("-c:a", "libmp3lame", "-id3v2_version", "3")),
    ("cover.m4a", ("-c:a", "aac")),
    ("cover.flac", ("-c:a", "flac", "-sample_fmt", "s16")),
)


def video_clip(name: str) -> VideoClip:
    """The clip of that name."""
    return next(each for each in VIDEO_CLIPS if each.name == name)


def audio_clip(name: str) -> AudioClip:
    """The clip of that name."""
    return next(each for each in AUDIO_CLIPS if each.name == name)


@cache
def with_cover(name: str, codec: tuple[str, ...]) -> tuple[Path, Path]:
    """Stereo audio with a picture in it, and that picture as a PNG."""
    picture = clip("cover.png", *pictures(size="30x20", duration=0.04), "-frames:v", "1")
    path = clip(name, *STEREO_44K, "-i", str(picture), "-map", "0", "-map", "1", *codec, "-c:v", "copy",
                "-disposition:v:0", "attached_pic")  # fmt: skip
    return path, picture


@cache
def expected_pictures(clip: VideoClip, pix_fmt: str) -> NDArray[Any]:
    """The ffmpeg tool's decoded output, in the shape of ``convert_frames``."""
    width, height = clip.size
    shapes = {
        "rgb24": (height, width, 3),
        "bgr24": (height, width, 3),
        "rgba": (height, width, 4),
        "rgb48le": (height, width, 3),
        "gray": (height, width, 1),
        "gray16le": (1, height, width),
        "gbrp": (3, height, width),
        "yuv444p": (3, height, width),
        "yuv422p": (1, height * 2, width),
        "yuvj422p": (1, height * 2, width),
        "yuv420p": (1, height * 3 // 2, width),
        "yuvj420p": (1, height * 3 // 2, width),
    }
    wide = pix_fmt in ("gray16le", "rgb48le")
    decoder = () if clip.decoder is None else ("-c:v", clip.decoder)
    command = ffmpeg_command("-noautorotate", *decoder, "-i", clip.path, "-map", "0:v:0", "-fps_mode", "passthrough",
                             "-f", "rawvideo", "-pix_fmt", pix_fmt, "-")  # fmt: skip
    raw = output_about(clip.path, command)
    return np.frombuffer(raw, np.uint16 if wide else np.uint8).reshape(-1, *shapes[pix_fmt])


@cache
def expected_times(path: Path, stream: str = "v:0") -> tuple[Fraction | None, ...]:
    """The exact time of each frame of a stream, by ffprobe; ``None`` where it is unknown."""
    command = ["ffprobe", "-v", "error", "-select_streams", stream, "-show_entries",
               "stream=time_base:frame=best_effort_timestamp", "-of", "json", str(path)]  # fmt: skip
    found = json.loads(output_about(path, command))
    time_base = Fraction(found["streams"][0]["time_base"])
    ticks = [frame.get("best_effort_timestamp") for frame in found["frames"]]
    return tuple(None if each is None else each * time_base for each in ticks)


def known_times(path: Path, stream: str = "v:0") -> tuple[Fraction, ...]:
    """The same for a clip whose frames all have a time."""
    times = tuple(each for each in expected_times(path, stream) if each is not None)
    assert len(times) == len(expected_times(path, stream))
    return times
