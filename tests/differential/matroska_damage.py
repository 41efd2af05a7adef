"""Law: damage between the blocks of Matroska is an error, which FFmpeg 5.1 to 9.0 pass over without a word."""

from pathlib import Path
from typing import Any, Final

import spdl.io
from tests.differential.cells import Draw, NotMadeError, law
from tests.differential.judges.ffmpeg_sound import SYSTEM, make
from tests.differential.sound.files import make_sound
from tests.differential.video import files
from tests.differential.video.forms import FORMS, TWINS, codec_of

_FILMS = ("mkv/h264", "mkv/mpeg4", "mkv/ffv1", "webm/vp8", "webm/vp9")
_SOUNDS = ("mkv/aac", "mkv/flac", "mkv/opus", "mkv/vorbis", "mkv/pcm", "webm/opus", "webm/vorbis")
_CLUSTER: Final = b"\x1f\x43\xb6\x75"
_TOLERANT: Final = spdl.io.demux_config(tolerate_errors=True)


def _with_clusters(draw: Draw, path: Path) -> Path:
    """The same packets in several clusters, as a file of the tool or as one that was written to a pipe."""
    copied = path.with_name(f"clusters{path.suffix}")
    live = ("-live", 1) if draw.random.random() < 0.3 else ()
    limit = draw.random.choice([80, 200, 400])
    make(draw, "-i", path, "-c", "copy", "-cluster_time_limit", limit, *live, copied, tool=SYSTEM)
    return copied


def _packets(source: Any, is_film: bool, **options: Any) -> Any:
    return spdl.io.demux_video(source, **options) if is_film else spdl.io.demux_audio(source, **options)


def _check(draw: Draw, path: Path, codec: str, is_film: bool) -> None:
    """Without an error, all packets are there; with one, a tolerant reader has those before the damage, and more."""
    path = _with_clusters(draw, path)
    data = bytearray(path.read_bytes())
    whole = _packets(str(path), is_film)
    count = len(whole)
    first = data.find(_CLUSTER)
    end = data.rfind(b"\x1c\x53\xbb\x6b")  # the index behind the clusters
    if end < first:
        end = len(data)
    # Damage of any byte; mostly at the head of a cluster or behind it, where it is between the blocks.
    clusters = [at for at in range(first, end) if data.startswith(_CLUSTER, at)]
    at = draw.random.choice(clusters) + draw.random.randrange(24)
    if draw.random.random() < 0.6:
        at = draw.random.randrange(first, end)
    length = draw.random.choice([1, 1, 4, 60])
    at = min(at, end - length)
    data[at : at + length] = bytes(each ^ draw.random.randrange(1, 256) for each in data[at : at + length])
    draw.note(f"{length} bytes damaged at {at} of {len(data)}, clusters at {clusters}, {count} packets")
    damaged = path.with_name(f"damaged{path.suffix}")
    damaged.write_bytes(data)
    for source in (str(damaged), bytes(data)):
        found = _packets(source, is_film, demux_config=_TOLERANT)
        try:
            strict = _packets(source, is_film)
        except spdl.io.MediaError as error:
            draw.note(error)
            before = sum(each < at for each in clusters) - 1
            if before >= 1:
                assert len(found) > 0, "nothing is left"
        else:
            assert len(strict) == len(found)
            # The parser of Opus drops a packet whose own head is damaged.
            most = 1 if codec == "opus" else 0
            assert count - most <= len(strict) <= count, f"{len(strict)} of {count} packets without an error"


@law("video", "damaged clusters", _FILMS, costly=TWINS)
def a_film_with_damaged_clusters(draw: Draw, form: str) -> None:
    """Pictures."""
    _check(draw, files.make_film(draw, FORMS[form]), codec_of(form), True)


@law("sound", "damaged clusters", _SOUNDS)
def a_sound_with_damaged_clusters(draw: Draw, form: str) -> None:
    """Sound."""
    sound = make_sound(draw, form, seconds=(0.5, 1.2))
    if sound.samples.shape[1] < 1000:
        raise NotMadeError("too short")
    _check(draw, sound.path, codec_of(form), False)


@law("video", "healthy clusters", _FILMS, costly=TWINS)
def a_film_with_healthy_clusters(draw: Draw, form: str) -> None:
    """Pictures and sound, at varying rate, written in every way that the tool has: no damage is found."""
    source = files.with_gaps(draw, FORMS[form])
    path = draw.folder / f"film{source.suffix}"
    options: tuple[Any, ...] = draw.random.choice(
        [(), ("-live", 1), ("-cluster_time_limit", 50), ("-cluster_size_limit", 2000), ("-cues_to_front", 1),
         ("-reserve_index_space", 5000), ("-write_crc32", 0)]
    )  # fmt: skip
    sound = ("-f", "lavfi", "-i", f"sine=d={draw.random.uniform(0.2, 2):.2f}")
    make(draw, "-i", source, *sound, "-c:v", "copy", "-c:a", "libopus", *options, path, tool=SYSTEM)
    packets = spdl.io.demux_video(path)
    assert len(packets) == len(spdl.io.demux_video(source))
    assert len(spdl.io.demux_audio(path)) > 0
    with spdl.io.Demuxer(path) as demuxer:
        demuxer.demux_video((0.3, 0.6))
        demuxer.demux_audio((0.1, 0.15))
        chunks: list[Any] = list(demuxer.streaming_demux({0, 1}, num_packets=7))
    assert sum(len(chunk[0]) for chunk in chunks if 0 in chunk) == len(packets)
