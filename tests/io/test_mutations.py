"""Media with damage anywhere, on every way from bytes to arrays: a typed error or a result, no crash, no hang.

The work is done in a process of its own, so that a crash is seen as one and a hang is ended with all stacks shown.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spdl.io
from tests.support.child import run_child
from tests.support.clip_matrix import PICTURES_IN_AUDIO, audio_clip, video_clip, with_cover
from tests.support.soak import SEED, seeds

VIDEOS = ("h264.mp4", "h264.mkv", "h264.ts", "h264.flv", "fragmented.mp4", "mpeg4.avi", "theora.ogv", "vp9.webm",
          "av1.mp4", "hevc.mp4", "edit_list.mp4", "prores_422.mov", "png_alpha.mov", "mpeg1.mpg", "h264_10bit.mp4",
          "mjpeg.avi", "ffv1.mkv", "with_sound.mp4")  # fmt: skip
SOUNDS = ("aac.mp4", "aac.adts.aac", "mp3.mp3", "opus.ogg", "vorbis.mkv", "flac.flac", "alac.m4a", "s16.wav",
          "s16.aiff", "adpcm.wav", "ac3.ac3", "with_pictures.avi")  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    """The data with one to four things wrong with it."""
    bytes_ = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if len(bytes_) < 8:
            break
        # Most of what a demuxer has to believe is at either end.
        near = rng.choice([len(bytes_), min(len(bytes_), 800)])
        at = rng.randrange(near) if rng.random() < 0.7 else len(bytes_) - 1 - rng.randrange(near)
        match rng.randrange(7):
            case 0:
                bytes_[at] = rng.randrange(256)
            case 1:
                bytes_[at] ^= 1 << rng.randrange(8)
            case 2:
                del bytes_[at : at + rng.randint(1, 400)]
            case 3:
                bytes_[at:at] = rng.randbytes(rng.randint(1, 60))
            case 4:
                bytes_[at:at] = bytes_[at : at + rng.randint(1, 3000)]
            case 5:
                bytes_[at : at + rng.randint(1, 64)] = bytes([rng.choice([0, 0xFF])]) * rng.randint(1, 64)
            case _:
                del bytes_[at:]
    return bytes(bytes_)


def load_video(data: bytes, tolerant: bool) -> None:
    spdl.io.to_numpy(
        spdl.io.load_video(
            data,
            demux_config=spdl.io.demux_config(tolerate_errors=tolerant),
            decode_config=spdl.io.decode_config(tolerate_errors=tolerant),
        )
    ).sum()


def load_audio(data: bytes, tolerant: bool) -> None:
    spdl.io.to_numpy(
        spdl.io.load_audio(
            data,
            (0.1, 0.4),
            demux_config=spdl.io.demux_config(tolerate_errors=tolerant),
            decode_config=spdl.io.decode_config(tolerate_errors=tolerant),
        )
    ).sum()


def load_image(data: bytes, tolerant: bool) -> None:
    spdl.io.to_numpy(spdl.io.load_image(data, decode_config=spdl.io.decode_config(tolerate_errors=tolerant))).sum()


def sample(data: bytes, tolerant: bool) -> None:
    with spdl.io.Demuxer(data, demux_config=spdl.io.demux_config(tolerate_errors=tolerant)) as demuxer:
        packets = demuxer.demux_video((0.1, 0.7))
    packets.get_timestamps()
    if count := len(packets):
        config = spdl.io.decode_config(tolerate_errors=tolerant)
        try:
            images = spdl.io.sample_decode_video(packets, sorted({0, count // 2, count - 1}), decode_config=config)
        except IndexError as exc:  # damage may hide a key frame; what comes before the next is skipped
            if "pictures come out of" not in str(exc):
                raise
            return
        for image in images:
            spdl.io.to_numpy(spdl.io.convert_frames(image)).sum()


def stream(data: bytes, tolerant: bool) -> None:
    config = spdl.io.decode_config(tolerate_errors=tolerant)
    with spdl.io.Demuxer(data, demux_config=spdl.io.demux_config(tolerate_errors=tolerant)) as demuxer:
        decoder: Any = spdl.io.Decoder(demuxer.video_codec, decode_config=config)
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=5):
            for frames in decoder.streaming_decode_packets(packets):
                spdl.io.to_numpy(spdl.io.convert_frames(frames)).sum()
        for frames in decoder.flush():
            spdl.io.to_numpy(spdl.io.convert_frames(frames)).sum()


def unpickle(data: bytes, tolerant: bool) -> None:
    """Here it is the state of packets that is damaged."""
    kind: Any = type(spdl.io.demux_video(UNDAMAGED))
    packets = kind.deserialize(data) if tolerant else kind.deserialize_view(memoryview(data))
    repr(packets)
    spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets))).sum()


UNDAMAGED = b""


def run(ways: list[Callable[[bytes, bool], None]], seeds: list[bytes], count: int, seed: int) -> Counter[str]:
    """Outcomes of that many mutations: ``result``, or the name of an error. Anything unexpected passes through."""
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        data, way, tolerant = mutate(rng.choice(seeds), rng), rng.choice(ways), rng.random() < 0.5
        print("case", number, way.__name__, tolerant, flush=True)
        try:
            way(data, tolerant)
        except (spdl.io.MediaError, MemoryError) as exc:
            outcomes[type(exc).__name__] += 1
        else:
            outcomes["result"] += 1
    return outcomes


def run_files(ways: list[str], paths: list[str], count: int, seed: int) -> None:
    """What the child process does."""
    functions: list[Any] = [globals()[name] for name in ways]
    print("done", dict(run(functions, [Path(path).read_bytes() for path in paths], count, seed)))


def check(ways: list[str], paths: list[Path], count: int, seed: int) -> None:
    arguments = f"{ways!r}, {[*map(str, paths)]!r}, {count}, {seed}"
    ended = run_child(f"from tests.io import test_mutations\ntest_mutations.run_files({arguments})")
    assert ended.returncode == 0, ended
    ended.check_no_complaint()  # other words on stderr are those that decoders call fatal, which FFmpeg prints
    last = ended.stdout.splitlines()[-1]
    assert last.startswith("done"), ended
    assert "'result'" in last, last
    assert "Error'" in last, last


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, soak=4))
def test_damaged_videos_load_or_fail_but_never_crash(seed: int) -> None:
    """Containers and codecs of every kind, in one step, by samples and by streaming."""
    check(["load_video", "sample", "stream"], [video_clip(name).path for name in VIDEOS], 250, seed)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, soak=2))
def test_damaged_audio_loads_or_fails_but_never_crashes(seed: int) -> None:
    """With a window, so that seeking in damaged data is seen too."""
    check(["load_audio"], [audio_clip(name).path for name in SOUNDS], 250, seed)


@pytest.mark.soak
@pytest.mark.slow
def test_damaged_covers_load_or_fail_but_never_crash() -> None:
    """Pictures inside damaged audio files."""
    check(["load_image"], [with_cover(name, codec)[0] for name, codec in PICTURES_IN_AUDIO], 250, SEED + 1)


@pytest.mark.soak
def test_damaged_state_of_packets_loads_or_fails_but_never_crashes() -> None:
    """What came out of pickling and was damaged on its way."""
    path = video_clip("h264.mp4").path
    ended = run_child(
        f"""
        from pathlib import Path
        import spdl.io
        from tests.io import test_mutations
        test_mutations.UNDAMAGED = Path({str(path)!r}).read_bytes()
        state = spdl.io.demux_video(test_mutations.UNDAMAGED, timestamp=(0.1, 0.7)).__getstate__()
        print("done", dict(test_mutations.run([test_mutations.unpickle], [state], 600, {SEED + 1})))
        """
    )
    assert ended.returncode == 0, ended
    ended.check_no_complaint()
    assert ended.stdout.splitlines()[-1].startswith("done"), ended


@pytest.mark.parametrize("name", ["h264.mp4", "h264.mkv", "h264.ts", "vp9.webm", "mpeg4.avi"])
def test_every_truncation_is_a_typed_error_or_a_prefix(name: str) -> None:
    """Cut anywhere: what loads are the first pictures of the whole, unless the last one is damaged."""
    data = video_clip(name).path.read_bytes()
    whole = spdl.io.to_numpy(spdl.io.load_video(data))
    for size in range(0, len(data), max(1, len(data) // 25)):
        try:
            array = spdl.io.to_numpy(spdl.io.load_video(data[:size]))
        except spdl.io.MediaError:
            continue
        assert 0 < len(array) <= len(whole)
        assert (array[:-1] == whole[: len(array) - 1]).all()
