"""The end of a file of sound: tags and padding behind it, short packets, and what is missing of it."""

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import run_ffmpeg

NUM_SAMPLES = 10_007
SAMPLES = (np.random.default_rng(1).normal(0, 3000, (NUM_SAMPLES, 2))).astype("<i2")


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """The samples in a container, as FFmpeg writes them."""
    folder = tmp_path_factory.mktemp("ends")
    made: dict[tuple[str, ...], bytes] = {}

    def write(container: str, *options: str, channels: int = 2) -> bytes:
        key = (container, str(channels), *options)
        if key not in made:
            target = folder / f"{len(made)}"
            raw = SAMPLES[:, :channels].tobytes()
            source = ("-f", "s16le", "-ar", "44100", "-ac", str(channels), "-i", "-")
            run_ffmpeg(*source, *options, "-strict", "-2", "-f", container, target, stdin=raw)
            made[key] = target.read_bytes()
        return made[key]

    return write


def loaded(data: Any, **options: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.load_audio(data, **options)).T


ITEM = struct.pack("<II", 5, 0) + b"Title\0Hello"


def ape(flags: int) -> bytes:
    return b"APETAGEX" + struct.pack("<IIII", 2000, len(ITEM) + 32, 1, 0x80000000 | flags) + bytes(8)


ID3V1 = b"TAG" + b"title".ljust(124, b"\0") + b"\x0c"
LYRICS = b"LYRICSBEGININD0000200"
FRAME = b"TIT2" + struct.pack(">I", 6) + b"\0\0\0title"
TAILS = {
    "ID3v1": ID3V1,
    "enhanced": b"TAG+".ljust(227, b"\0") + ID3V1,
    "APEv2": ape(0x20000000) + ITEM + ape(0),
    "APEv2 and ID3v1": ape(0x20000000) + ITEM + ape(0) + ID3V1,
    "Lyrics3": LYRICS + b"%06d" % len(LYRICS) + b"LYRICS200" + ID3V1,
    "ID3v2": b"ID3\4\0\x10\0\0\0%c" % len(FRAME) + FRAME + b"3DI\4\0\x10\0\0\0%c" % len(FRAME),
    "a zero": bytes(1),
    "zeros": bytes(77),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize(
    ("container", "options"),
    [
        ("flac", ()),
        ("mp2", ()),
        ("ac3", ()),
        ("eac3", ()),
        ("adts", ()),
        ("latm", ()),
        ("tta", ()),
        ("au", ()),
        ("sox", ()),
        ("aiff", ()),
        ("caf", ()),
        ("voc", ()),
        ("wav", ()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_lies_behind_the_sound_is_no_damage(
    make: Callable[..., bytes], container: str, options: tuple[str, ...], tail: str
) -> None:
    """The samples are those of the file without it."""
    data = make(container, *options)
    np.testing.assert_array_equal(loaded(data + TAILS[tail]), loaded(data))


def test_flac_whose_checksum_may_end_with_zeros(make: Callable[..., bytes]) -> None:
    """FLAC frames of many lengths: what is behind them does not change what is decoded, and zeros are none of it."""
    raw = SAMPLES.tobytes()
    for number in range(40):
        source = ("-f", "s16le", "-ar", "44100", "-ac", "2", "-i", "-")
        count = 600 + number
        data = run_ffmpeg(*source, "-f", "flac", "-", stdin=raw[: 4 * count])
        for tail in (b"", bytes(1), bytes(2), bytes(3), bytes(50), ID3V1):
            np.testing.assert_array_equal(loaded(data + tail, dtype="int16"), SAMPLES[:count])


def test_junk_behind_flac_is_still_damage(make: Callable[..., bytes]) -> None:
    """Neither tags nor padding."""
    with pytest.raises(spdl.io.DecodeError, match="damaged packet"):
        spdl.io.load_audio(make("flac") + b"\xa5" * 200)


@pytest.mark.parametrize(
    ("container", "channels", "codec"),
    [
        ("adx", 1, None),
        ("adx", 2, None),
        ("g726", 1, None),
        ("g726le", 1, None),
        ("aptx", 2, None),
        ("aptx_hd", 2, None),
    ],
)
def test_last_packets_that_are_short(make: Callable[..., bytes], container: str, channels: int, codec: None) -> None:
    """By nature, as their demuxers read a fixed number of bytes."""
    data = make(container, channels=channels)
    config = None if container == "adx" else spdl.io.demux_config(format=container)
    samples = loaded(data, demux_config=config)
    assert abs(len(samples) - NUM_SAMPLES) < 32
    shifted = {"adx": 0, "g726": 0, "g726le": 0, "aptx": 90, "aptx_hd": 90}[container]
    wanted = SAMPLES[: len(samples) - shifted, : samples.shape[1]] / 32768.0
    found = samples[shifted : shifted + len(wanted)]
    assert np.corrcoef(found[:, 0], wanted[: len(found), 0])[0, 1] > 0.8


def test_adx_that_lacks_blocks_is_damaged(make: Callable[..., bytes]) -> None:
    """It states its number of samples; a tolerant reader gets the whole blocks."""
    data = make("adx")
    half = data[: len(data) // 2]
    with pytest.raises(spdl.io.DemuxError, match="the data ends early: 5661 of 11304 bytes are there"):
        spdl.io.load_audio(half)
    part = loaded(half, demux_config=spdl.io.demux_config(tolerate_errors=True))
    np.testing.assert_array_equal(part, loaded(data)[: len(part)])
    assert len(part) == (len(half) - 36) // 36 * 32


@pytest.mark.parametrize("container", ["wsaud", "roq"])
def test_demuxers_that_look_for_a_chunk_behind_the_last_one(make: Callable[..., bytes], container: str) -> None:
    """They report an error there, which is only the end."""
    options = ("-ar", "22050") if container == "roq" else ()
    assert len(loaded(make(container, *options))) >= NUM_SAMPLES // 2 - 2


def test_packet_of_side_data_only(make: Callable[..., bytes]) -> None:
    """As the last one of FLAC in NUT."""
    np.testing.assert_array_equal(loaded(make("nut", "-c:a", "flac"), dtype="int16"), SAMPLES)


@pytest.mark.parametrize("cut", [1, 3, 5, 4097, 20_001])
@pytest.mark.parametrize(
    ("container", "codec", "size"),
    [
        ("wav", "pcm_s16le", 4),
        ("aiff", "pcm_s16be", 4),
        ("aiff", "pcm_s24be", 6),
        ("au", "pcm_s16be", 4),
        ("au", "pcm_mulaw", 2),
        ("w64", "pcm_s16le", 4),
        ("caf", "pcm_s16be", 4),
        ("caf", "pcm_s32le", 8),
        ("voc", "pcm_s16le", 4),
        ("sox", "pcm_s32le", 8),
    ],
)
def test_samples_that_are_cut_off(make: Callable[..., bytes], container: str, codec: str, size: int, cut: int) -> None:
    """An error that says so; tolerant reading gives every whole sample that is there."""
    data = make(container, "-c:a", codec)
    cut += {"w64": 4, "voc": 1}.get(container, 0)  # padding, or a mark of the end
    with pytest.raises(spdl.io.DemuxError, match=r"cut off|ends early"):
        spdl.io.load_audio(data[:-cut])
    whole = loaded(data)
    tolerant = spdl.io.demux_config(tolerate_errors=True)
    packets = spdl.io.demux_audio(data[:-cut], demux_config=tolerant)
    assert packets.num_errors == 1
    part = loaded(data[:-cut], demux_config=tolerant)
    np.testing.assert_array_equal(part, whole[: len(part)])
    missing = cut - {"w64": 4, "voc": 1}.get(container, 0)
    headers = 6 if container == "voc" else 0  # of its blocks, in samples
    assert 0 <= len(part) - (NUM_SAMPLES * size - missing) // size <= headers


@pytest.mark.parametrize(("codec", "size"), [("pcm_s8", 1), ("pcm_s24be", 3), ("pcm_mulaw", 1)])
@pytest.mark.parametrize("channels", [1, 2])
def test_aiff_with_an_odd_number_of_bytes(
    make: Callable[..., bytes], codec: str, size: int, channels: int, tmp_path: Path
) -> None:
    """The byte that fills it up is neither a sample nor damage."""
    assert NUM_SAMPLES % 2 == 1
    data = make("aiff", "-c:a", codec, channels=channels)
    data += bytes(len(data) % 2)
    found = loaded(data)
    assert len(found) == NUM_SAMPLES
    path = tmp_path / "a.aiff"
    path.write_bytes(data)
    np.testing.assert_array_equal(loaded(str(path)), found)
    if size == 3:
        np.testing.assert_array_equal(found, (SAMPLES[:, :channels] / 32768.0).astype(np.float32))


@pytest.mark.parametrize("codec", ["flac", "libvorbis", "libopus"])
@pytest.mark.parametrize("damage", ["changed", "missing", "cut off"])
def test_damaged_pages_of_ogg_are_an_error(make: Callable[..., bytes], codec: str, damage: str) -> None:
    """FFmpeg skips them without a word; tolerant reading gives the rest of the sound."""
    options = {"libopus": ("-ar", "48000"), "flac": ("-frame_size", "576")}.get(codec, ())
    data = make("ogg", "-c:a", codec, *options, "-page_duration", "20000")
    starts = [at for at in range(len(data)) if data[at : at + 4] == b"OggS"]
    page = starts[len(starts) // 2]
    following = starts[len(starts) // 2 + 1]
    broken = {
        "changed": data[: page + 100] + bytes([data[page + 100] ^ 4]) + data[page + 101 :],
        "missing": data[:page] + data[following:],
        "cut off": data[: page + 60],
    }[damage]
    words = "ends early" if damage == "cut off" else "damaged or missing"
    with pytest.raises(spdl.io.DemuxError, match=words):
        spdl.io.load_audio(broken)
    with spdl.io.Demuxer(broken) as demuxer, pytest.raises(spdl.io.DemuxError, match=words):
        list(demuxer.streaming_demux(demuxer.audio_stream_index, num_packets=2))
    tolerant = spdl.io.demux_config(tolerate_errors=True)
    whole, rest = loaded(data), loaded(broken, demux_config=tolerant)
    assert len(whole) // 4 < len(rest) < len(whole)
    assert spdl.io.demux_audio(broken, demux_config=tolerant).num_errors == 1
    np.testing.assert_array_equal(loaded(data + ID3V1), whole)


def test_raw_samples_with_a_part_of_one_at_the_end() -> None:
    """Nothing says how many there should be, so it is no damage."""
    config = spdl.io.demux_config(format="s16le", format_options={"sample_rate": "8000", "channels": "2"})
    found = loaded(SAMPLES.tobytes() + b"abc", demux_config=config, dtype="int16")
    np.testing.assert_array_equal(found, SAMPLES)


def test_files_and_pipes_end_in_the_same_way(make: Callable[..., bytes], tmp_path: Path) -> None:
    """A tag is found behind a file on disk, too."""
    data = make("flac")
    path = tmp_path / "a.flac"
    path.write_bytes(data + ID3V1)
    np.testing.assert_array_equal(loaded(str(path), dtype="int16"), SAMPLES)
    part = loaded(str(path), timestamp=(0.2, 0.3), dtype="int16")
    np.testing.assert_array_equal(part, SAMPLES[8820:])


@pytest.mark.parametrize("codec", ["adpcm_ima_wav", "adpcm_ms"])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_ends_where_it_says(make: Callable[..., bytes], codec: str, channels: int) -> None:
    """The chunk ``fact`` counts the samples; the last block has more. A number that cannot be is ignored."""
    data = make("wav", "-c:a", codec, channels=channels)
    place = data.index(b"fact") + 8
    size = struct.unpack_from("<H", data, data.index(b"fmt ") + 8 + 12)[0]  # of a block, in bytes
    block = (
        (size - 4 * channels) * 2 // channels + 1
        if codec == "adpcm_ima_wav"
        else (size - 7 * channels) * 2 // channels + 2
    )
    whole = loaded(data[:place] + struct.pack("<I", 0) + data[place + 4 :])
    assert len(whole) % block == 0
    assert len(whole) - block < NUM_SAMPLES <= len(whole)
    for count in (NUM_SAMPLES, len(whole) - block + 1, len(whole) - 1):
        stated = data[:place] + struct.pack("<I", count) + data[place + 4 :]
        assert np.array_equal(loaded(stated), whole[:count])
        assert np.array_equal(loaded(stated, timestamp=(0.1, np.inf)), whole[4410:count])
        assert len(loaded(stated, sample_rate=22050)) == -(-count // 2)
        (excerpt,) = spdl.io.load_audio_batch([stated], num_samples=count + 10, sample_rate=44100, start=0.0).excerpts
        assert excerpt is not None
        assert excerpt.length == count
        packets = pickle.loads(pickle.dumps(spdl.io.demux_audio(stated)))
        frames = spdl.io.decode_packets(packets)
        assert spdl.io.to_numpy(spdl.io.convert_frames(frames)).shape[-1] == count
    # Some writers divide it by the channels, which a file of one block does not tell from a short one.
    start = data.index(b"data") + 4
    short = data[:start] + struct.pack("<I", size) + data[start + 4 : start + 4 + size]
    short = short[:4] + struct.pack("<I", len(short) - 8) + short[8:]
    of_one = len(loaded(short[:place] + struct.pack("<I", 0) + short[place + 4 :]))
    halved = loaded(short[:place] + struct.pack("<I", of_one // 2) + short[place + 4 :])
    assert len(halved) == (of_one if channels == 2 else of_one // 2)
    for wrong in (1, len(whole) - block, len(whole) + 1, 2**32 - 1):
        assert np.array_equal(loaded(data[:place] + struct.pack("<I", wrong) + data[place + 4 :]), whole)
