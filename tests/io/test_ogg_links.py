"""Ogg: where Vorbis begins and ends, and chains of streams, judged by granule positions and by the encoded sound."""

import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import run_ffmpeg

RATE = 48_000
RNG = np.random.default_rng(3)


def encoded(samples: NDArray[Any], codec: str, rate: int = RATE, channels: int = 1, *options: str) -> bytes:
    source = ("-f", "f32le", "-ar", str(rate), "-ac", str(channels), "-i", "-")
    return run_ffmpeg(*source, "-c:a", codec, *options, "-f", "ogg", "-", stdin=samples.astype("<f4").tobytes())


def loaded(data: Any, *args: Any, **options: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.load_audio(data, *args, **options)).T


def pages(data: bytes) -> list[tuple[int, int]]:
    """Place and granule position of each page."""
    found = []
    at = 0
    while at < len(data):
        assert data[at : at + 4] == b"OggS"
        count = data[at + 26]
        found.append((at, struct.unpack_from("<q", data, at + 6)[0]))
        at += 27 + count + sum(data[at + 27 : at + 27 + count])
    return found


def sounds() -> list[NDArray[Any]]:
    """Noise, a tone, a click after silence, a late attack: encoders choose their first blocks by these."""
    silence = np.zeros(700)
    tone = np.sin(np.arange(30_000) * 0.05) * 0.3
    click = np.concatenate([silence[:100], [0.9], np.zeros(25_000)])
    return [RNG.normal(0, 0.1, 20_011), tone, click, np.concatenate([silence, RNG.normal(0, 0.3, 15_000)])]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("rate", [44_100, 48_000, 22_050])
def test_vorbis_has_as_many_samples_as_its_last_granule_says(number: int, rate: int) -> None:
    """Also where the first block is short and the second long; and as many as were encoded, at their places."""
    samples = sounds()[number]
    data = encoded(samples, "libvorbis", rate)
    assert pages(data)[-1][1] == len(samples)
    whole = loaded(data)
    assert len(whole) == len(samples)
    assert len(loaded(data, dtype="float32")) == len(samples)
    assert np.corrcoef(whole[:, 0], samples)[0, 1] > 0.7
    for start, end in ((0.0, 0.01), (0.1, 0.2), (0.2015, 9.0)):
        part = loaded(data, (start, end), dtype="float32")
        np.testing.assert_allclose(part, whole[int(np.ceil(start * rate)) : int(np.ceil(end * rate))], atol=1e-6)


CODECS = ["libvorbis", "libopus", "flac"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("order", [(0, 1), (1, 1), (2, 3, 0)], ids=str)
def test_a_chain_is_the_sum_of_its_links(codec: str, order: tuple[int, ...]) -> None:
    """Its windows are slices of that, at the file's rate and at another, and random parts reach all links."""
    links = [encoded(sounds()[number], codec) for number in order]
    data = b"".join(links)
    expected = np.concatenate([loaded(link) for link in links])
    assert len(expected) == sum(len(sounds()[number]) for number in order)
    whole = loaded(data)
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    np.testing.assert_allclose(loaded(data, dtype="float32"), expected, atol=1e-6)
    joint = len(loaded(links[0]))
    first = joint / RATE
    for begin, stop in ((0, 4800), (joint - 4800, joint + 4800), (joint, joint + 2400), (joint + 9600, 900_000)):
        start, end = begin / RATE, stop / RATE
        wanted = expected[begin:stop]
        np.testing.assert_allclose(loaded(data, (start, end)), wanted, atol=1e-6)
        np.testing.assert_allclose(loaded(data, (start, end), dtype="float32"), wanted, atol=1e-6)
    slow = loaded(data, sample_rate=16_000)
    for start, end in ((0.125, 0.25), (0.5, 0.75), (0.8, 0.85)):
        wanted = slow[int(start * 16_000) : int(end * 16_000)]
        np.testing.assert_allclose(loaded(data, (start, end), sample_rate=16_000), wanted, atol=2e-3)
    batches = [
        spdl.io.load_audio_batch([data], num_samples=480, sample_rate=RATE, seed=seed).excerpts[0] for seed in range(20)
    ]
    excerpts = [excerpt for excerpt in batches if excerpt is not None]
    assert [excerpt.length for excerpt in excerpts] == [480] * 20
    assert min(excerpt.start for excerpt in excerpts) < first < max(excerpt.start for excerpt in excerpts)


@pytest.mark.parametrize("codec", CODECS)
def test_links_of_another_kind_are_refused_by_name(codec: str) -> None:
    """With another rate, number of channels or codec."""
    first = encoded(sounds()[0], codec)
    other = "libvorbis" if codec == "flac" else "flac"
    kinds = [encoded(sounds()[0], codec, RATE, 2), encoded(sounds()[0], other)]
    if codec != "libopus":
        kinds.append(encoded(sounds()[0], codec, 44_100))
    for link in kinds:
        with pytest.raises(
            spdl.io.DemuxError, match=r"chain of Ogg streams of different kinds: the first is .*, number 2"
        ):
            spdl.io.load_audio(first + link)
        with pytest.raises(spdl.io.DemuxError, match="divide the file into its streams"):
            spdl.io.load_audio(first + link, (0.0, 0.1), dtype="int16")


def test_a_chain_from_a_file_and_with_damage(tmp_path: Any) -> None:
    """A damaged page of a link is an error; tolerant reading gives what is before it."""
    links = [encoded(sounds()[number], "libvorbis") for number in (0, 3, 1)]
    data = b"".join(links)
    path = tmp_path / "a.ogg"
    path.write_bytes(data)
    expected = loaded(data)
    np.testing.assert_array_equal(loaded(str(path)), expected)
    broken = bytearray(data)
    broken[-100] ^= 1
    with pytest.raises(spdl.io.DemuxError, match="a page of a chain of Ogg streams is damaged"):
        spdl.io.load_audio(bytes(broken))
    tolerant = spdl.io.demux_config(tolerate_errors=True)
    part = loaded(bytes(broken), demux_config=tolerant)
    np.testing.assert_allclose(part, expected[: len(loaded(links[0])) + len(loaded(links[1]))], atol=1e-6)
