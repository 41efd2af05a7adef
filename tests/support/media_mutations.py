"""Video, audio and archives with damage anywhere: a typed error or a result, no crash, no hang.

Short in the test suite, long by hand, in a process of its own so that a crash is seen as one::

    python -m tests.support.media_mutations COUNT_PER_KIND [SEED]
"""

import io
import random
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

import spdl.io
from tests.support.image_mutations import mutate
from tests.support.media import clip

Way = Callable[[bytes, random.Random], object]

_PICTURES = ("-f", "lavfi", "-i", "testsrc=size=48x36:rate=10:duration=1")
_SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:duration=0.5:sample_rate=8000")
_MOVIES = {
    "mp4": ("-c:v", "libx264", "-bf", "2", "-c:a", "aac"),
    "mkv": ("-c:v", "libx264", "-bf", "2", "-c:a", "flac", "-strict", "-2"),
    "webm": ("-c:v", "libvpx", "-c:a", "libopus"),
    "avi": ("-c:v", "mpeg4", "-bf", "2", "-c:a", "mp3"),
    "ts": ("-c:v", "libx264", "-bf", "2", "-c:a", "aac"),
    "flv": ("-c:v", "libx264", "-c:a", "aac"),
    "mpg": ("-c:v", "mpeg1video", "-bf", "2", "-r", "25", "-c:a", "mp2"),
}
_SOUNDS = {
    "wav": ("-c:a", "pcm_s16le"),
    "flac": ("-c:a", "flac"),
    "mp3": ("-c:a", "libmp3lame"),
    "ogg": ("-c:a", "libvorbis"),
    "opus": ("-c:a", "libopus"),
    "m4a": ("-c:a", "aac"),
    "aiff": ("-c:a", "pcm_s16be"),
}
# Long enough for windows to which one seeks.
_LONG_SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:duration=6:sample_rate=8000")
_LONG_SOUNDS = {
    "ogg, long": ("a.ogg", "-c:a", "libvorbis", "-page_duration", "200000"),
    "opus, long": ("a.opus", "-c:a", "libopus", "-page_duration", "200000"),
}
#: Most seconds that one case may take: damaged sizes must not buy time.
LONGEST = 20.0


@cache
def seeds() -> dict[str, bytes]:
    """A small undamaged file of each kind."""
    files = {
        suffix: clip(f"a.{suffix}", *_PICTURES, *_SOUND, "-shortest", *options).read_bytes()
        for suffix, options in _MOVIES.items()
    }
    files |= {suffix: clip(f"a.{suffix}", *_SOUND, *options).read_bytes() for suffix, options in _SOUNDS.items()}
    files |= {kind: clip(name, *_LONG_SOUND, *options).read_bytes() for kind, (name, *options) in _LONG_SOUNDS.items()}
    return files | _arrays() | {"packets": pickle_of(files["mp4"])}


def _arrays() -> dict[str, bytes]:
    npy, npz, deflated, tar = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    np.save(npy, array)
    np.savez(npz, a=array, b=array[0])
    np.savez_compressed(deflated, a=array, b=array[0])
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("a.txt", "é" * 60, "folder/b"):
            member = tarfile.TarInfo(name)
            member.size = 700
            archive.addfile(member, io.BytesIO(b"x" * 700))
    return {"npy": npy.getvalue(), "npz": npz.getvalue(), "npz, deflated": deflated.getvalue(), "tar": tar.getvalue()}


def pickle_of(movie: bytes) -> bytes:
    """The state of packets, as it is sent to other processes."""
    return bytes(spdl.io.demux_video(movie).__getstate__())


def with_ogg_checks(data: bytes, places: Sequence[int] | None = None) -> bytes:
    """The data with the checksums of its Ogg pages made right, so that damage gets past them (RFC 3533, section 6).

    Args:
        data: The file.
        places: Where pages begin. ``None``: wherever there is the word that they begin with.
    """
    pages = bytearray(data)
    for at in _ogg_pages(pages) if places is None else places:
        lengths = pages[at + 27 : at + 27 + pages[at + 26]]
        end = at + 27 + len(lengths) + sum(lengths)
        pages[at + 22 : at + 26] = bytes(4)
        pages[at + 22 : at + 26] = _ogg_checksum(bytes(pages[at:end])).to_bytes(4, "little")
    return bytes(pages)


def _ogg_pages(data: bytearray) -> Iterator[int]:
    at = data.find(b"OggS")
    while 0 <= at <= len(data) - 27:
        yield at
        at = data.find(b"OggS", at + 4)


def _ogg_checksum(page: bytes) -> int:
    checksum = 0
    for byte in page:
        checksum = (checksum << 8 & 0xFFFFFFFF) ^ _OGG_TABLE[checksum >> 24 ^ byte]
    return checksum


def _ogg_entry(index: int) -> int:
    entry = index << 24
    for _ in range(8):
        entry = (entry << 1 ^ (0x04C11DB7 if entry & 0x80000000 else 0)) & 0xFFFFFFFF
    return entry


_OGG_TABLE = [_ogg_entry(index) for index in range(256)]


def _window(rng: random.Random) -> tuple[float, float] | None:
    return rng.choice([None, None, (0.2, 0.6), (0, 0.1), (0.45, 9.0)])


def load_video(data: bytes, rng: random.Random) -> object:
    return spdl.io.load_video(data, timestamp=_window(rng))


def load_audio(data: bytes, rng: random.Random) -> object:
    return spdl.io.load_audio(data, timestamp=_window(rng))


def load_late(data: bytes, rng: random.Random) -> object:
    start = rng.uniform(1.5, 6)
    return spdl.io.load_audio(data, timestamp=(start, start + rng.choice([0.01, 0.5, 5])))


def decode_tolerantly(data: bytes, rng: random.Random) -> object:
    config = spdl.io.demux_config(tolerate_errors=True)
    demux: Any = rng.choice([spdl.io.demux_video, spdl.io.demux_audio])
    packets = demux(data, timestamp=_window(rng), demux_config=config)
    return spdl.io.decode_packets(packets, decode_config=spdl.io.decode_config(tolerate_errors=True))


def stream(data: bytes, rng: random.Random) -> object:
    with spdl.io.Demuxer(data) as demuxer:
        return [len(packets) for packets in demuxer.streaming_demux(0, num_packets=rng.choice([1, 5]))]


def sample(data: bytes, rng: random.Random) -> object:
    packets = spdl.io.demux_video(data)
    return spdl.io.sample_decode_video(packets, [rng.randrange(len(packets))]) if len(packets) else None


def load_wav(data: bytes, rng: random.Random) -> object:
    return spdl.io.load_wav(data, time_offset_seconds=rng.choice([None, 0.1]), duration_seconds=rng.choice([None, 0.2]))


def deserialize(data: bytes, rng: random.Random) -> object:
    packets = spdl.io.VideoPackets.deserialize(data)
    return spdl.io.decode_packets(packets) if rng.random() < 0.5 else packets.get_timestamps()


def read_tar(data: bytes, rng: random.Random) -> object:
    source: Any = data if rng.random() < 0.5 else io.BytesIO(data)
    return [(name, len(content)) for name, content in spdl.io.iter_tarfile(source)]


def read_npy(data: bytes, rng: random.Random) -> object:
    return spdl.io.load_npy(data, copy=rng.random() < 0.5)


def read_npz(data: bytes, rng: random.Random) -> object:
    file = spdl.io.load_npz(data, max_uncompressed_bytes=1 << 24)
    return [file[name].sum() for name in file.files]


_ALL_SOUND: tuple[Way, ...] = (load_audio, load_audio, decode_tolerantly, stream)
_ALL_VIDEO: tuple[Way, ...] = (load_video, load_video, sample, *_ALL_SOUND)
WAYS: dict[str, Sequence[Way]] = {
    **dict.fromkeys(_MOVIES, _ALL_VIDEO),
    **dict.fromkeys(_SOUNDS, _ALL_SOUND),
    **dict.fromkeys(_LONG_SOUNDS, (load_late,)),
    "wav": (*_ALL_SOUND, load_wav),
    "packets": (deserialize,),
    "tar": (read_tar,),
    "npy": (read_npy,),
    "npz": (read_npz,),
    "npz, deflated": (read_npz,),
}


def run(kind: str, count: int, seed: int = 0, *, verbose: bool = False) -> Counter[str]:
    """Try that many damaged files of a kind. Anything but a result or a typed error passes through.

    Args:
        kind: One of ``WAYS``.
        count: How many.
        seed: The same files for the same seed.
        verbose: Print each case before it is tried, for those that end the process.

    Returns:
        How many gave a ``"result"``, and how many failed with each error.
    """
    rng = random.Random(f"{kind} {seed}")
    outcomes: Counter[str] = Counter()
    for number in range(count):
        data, way = mutate(seeds()[kind], rng), rng.choice(WAYS[kind])
        if kind.startswith(("ogg", "opus")) and rng.random() < 0.8:
            data = with_ogg_checks(data)
        if verbose:
            print("case", kind, number, way.__name__, flush=True)
        begin = time.monotonic()
        try:
            way(data, rng)
            outcomes["result"] += 1
        except (spdl.io.MediaError, ValueError) as error:
            # ValueError: a window beyond what is left of the data, and limits of npz.
            outcomes[type(error).__name__ if str(error) else "no message"] += 1
        if time.monotonic() - begin > LONGEST:
            outcomes["slow"] += 1
            print("slow:", kind, number, way.__name__, file=sys.stderr)
    return outcomes


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    for name in WAYS:
        print(name, dict(run(name, int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)), flush=True)
