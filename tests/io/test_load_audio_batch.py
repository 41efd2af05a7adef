"""``load_audio_batch``: parts of many sounds in one array."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import clip, tones

_RATE = 16000
_load: Any = spdl.io.load_audio_batch


def _sounds() -> list[Path]:
    """Sounds of 0.5, 1 and 2 seconds, of several rates and codecs, of which no part is like another."""
    return [
        clip("sweep.flac", *tones(44100, 2, "0.5*sin(2*PI*(100+700*t)*t)")),
        clip("sweep.wav", *tones(22050, 1, "0.5*sin(2*PI*(300+500*t)*t)")),
        clip("short.flac", *tones(16000, 0.5, "0.5*sin(2*PI*(200+300*t)*t)")),
    ]


def _array(batch: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(batch)


def _whole(path: Path, **options: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.load_audio(path, sample_rate=_RATE, **options))


def test_a_batch_has_what_load_audio_gives() -> None:
    """Each row is the window of its source; what a source lacks is silent."""
    batch = _load(_sounds(), num_samples=8000, sample_rate=_RATE, start=0.25)
    assert batch.shape == (3, 1, 8000)
    for row, path in zip(_array(batch), _sounds(), strict=True):
        alone = spdl.io.load_audio(path, (0.25, 0.75), sample_rate=_RATE, num_channels=1, num_samples=8000)
        assert np.array_equal(row, spdl.io.to_numpy(alone))
    assert [excerpt.start for excerpt in batch.excerpts] == [0.25, 0.25, 0.25]
    assert [excerpt.length for excerpt in batch.excerpts] == [8000, 8000, 4000]
    assert (_array(batch)[2, 0, 4000:] == 0).all()
    assert batch.origins == (0, 1, 2)
    assert batch.failures == ()


def test_starts_may_be_one_per_source() -> None:
    """Numbers in any sequence are the starts of their sources."""
    starts = np.array([1.5, 0.1, 0.0])
    batch = _load(_sounds(), num_samples=1600, sample_rate=_RATE, start=starts)
    assert [excerpt.start for excerpt in batch.excerpts] == pytest.approx(starts)
    assert np.abs(_array(batch)[0, 0] - _whole(_sounds()[0])[0, 24000:25600]).max() < 2e-5


def test_random_parts_are_where_excerpts_say() -> None:
    """Parts of one source differ by their seeds, lie inside of it, and are those samples of the whole."""
    path = _sounds()[0]
    batch = _load([path] * 40, num_samples=1600, sample_rate=_RATE, seeds=range(40))
    whole = _whole(path)[0]
    firsts = [round(excerpt.start * _RATE) for excerpt in batch.excerpts]
    assert len(set(firsts)) > 35
    assert min(firsts) >= 0
    assert max(firsts) <= 2 * _RATE - 1600
    # All of the source is reached: each quarter, by 40 uniform starts.
    assert {4 * first // (2 * _RATE - 1600 + 1) for first in firsts} == {0, 1, 2, 3}
    for first, row in zip(firsts, _array(batch), strict=True):
        assert np.abs(row[0] - whole[first : first + 1600]).max() < 2e-5


def test_the_result_depends_on_the_seed_alone() -> None:
    """Threads and neighbours change nothing; ``seed`` stands for the seeds that ``sample_seeds`` makes of it."""
    paths = _sounds() * 3
    first = _load(paths, num_samples=4000, sample_rate=_RATE, seed=5)
    other = _load(paths, num_samples=4000, sample_rate=_RATE, seed=5, num_threads=4)
    seeds = spdl.io.sample_seeds(5, 0, range(len(paths)))
    alone = _load(paths[4:5], num_samples=4000, sample_rate=_RATE, seeds=seeds[4:5])
    assert np.array_equal(_array(first), _array(other))
    assert first.excerpts == other.excerpts
    assert np.array_equal(_array(first)[4], _array(alone)[0])


def test_a_source_that_is_too_short_is_taken_whole() -> None:
    """A random part of it starts at its beginning, and ends in silence."""
    batch = _load(_sounds()[2:], num_samples=_RATE, sample_rate=_RATE, seed=1)
    assert batch.excerpts == (spdl.io.Excerpt(0.0, 8000),)
    assert np.abs(_array(batch)[0, :, :8000] - _whole(_sounds()[2])).max() < 2e-5
    assert (_array(batch)[0, :, 8000:] == 0).all()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_header_that_promises_too_much_is_found_out(share: float) -> None:
    """A part is inside of what there really is, though the duration in the header is twice that."""
    path = _sounds()[1]
    data = bytearray(path.read_bytes())
    at = data.index(b"data") + 4
    size = int.from_bytes(data[at : at + 4], "little")
    data[at : at + 4] = (2 * size).to_bytes(4, "little")
    config = spdl.io.demux_config(tolerate_errors=True)
    batch = _load([bytes(data)] * 8, num_samples=1600, sample_rate=_RATE, seed=round(1000 * share), demux_config=config)
    whole = _whole(path)[0]
    for excerpt, row in zip(batch.excerpts, _array(batch), strict=True):
        first = round(excerpt.start * _RATE)
        assert excerpt.length == 1600
        assert 0 <= first <= _RATE - 1600
        assert np.abs(row[0] - whole[first : first + 1600]).max() < 2e-5


def test_rows_have_the_channels_asked_for() -> None:
    """Mono and stereo sources may be mixed."""
    stereo = clip("stereo.wav", *tones(16000, 1, "0.5*sin(2*PI*440*t)|0.25*sin(2*PI*880*t)"))
    batch = _load([stereo, _sounds()[1]], num_samples=1600, sample_rate=_RATE, num_channels=2, start=0)
    left, right = _array(batch)[0]
    assert not np.array_equal(left, right)
    assert np.array_equal(*_array(batch)[1])


def test_failures_are_left_out_zeroed_or_raised(tmp_path: Path) -> None:
    """As with images: by default all raise, else sources that fail are missing or silent, and their errors are kept."""
    sources = [_sounds()[0], tmp_path / "missing.wav", b"no sound", _sounds()[1]]
    arguments: dict[str, Any] = {"num_samples": 800, "sample_rate": _RATE, "start": 0.5}
    with pytest.raises(spdl.io.BatchLoadError, match=r"Failed to load some sounds. \(2 of 4\)") as caught:
        _load(sources, **arguments)
    assert [failure.index for failure in caught.value.failures] == [1, 2]
    dropped = _load(sources, **arguments, strict=False, num_threads=3)
    assert dropped.shape == (2, 1, 800)
    assert dropped.origins == (0, 3)
    assert len(dropped.excerpts) == 2
    assert [type(failure.error) for failure in dropped.failures] == [spdl.io.SourceNotFoundError, spdl.io.OpenError]
    zeroed = _load(sources, **arguments, strict=False, missing="zero")
    assert zeroed.origins == (0, None, None, 3)
    assert zeroed.excerpts[1] is None
    assert (_array(zeroed)[1:3] == 0).all()
    assert np.array_equal(_array(zeroed)[[0, 3]], _array(dropped))
    with pytest.raises(spdl.io.BatchLoadError):
        _load(sources[1:3], **arguments, strict=False)
    # A start behind the end is a failure, too.
    with pytest.raises(spdl.io.BatchLoadError, match="no samples in"):
        _load(_sounds(), num_samples=800, sample_rate=_RATE, start=100)


def test_the_batch_is_written_into_memory_of_the_user() -> None:
    """``out`` is filled in place; one of another shape or dtype is refused."""
    out = np.empty((3, 1, 800), np.int16)
    batch = _load(_sounds(), num_samples=800, sample_rate=_RATE, start=0, dtype="int16", out=out)
    assert np.shares_memory(_array(batch), out)
    assert np.array_equal(_array(batch), out)
    assert out.any()
    with pytest.raises(ValueError, match="out must be float32"):
        _load(_sounds(), num_samples=800, sample_rate=_RATE, start=0, out=out)


def test_excerpts_are_pickled_with_the_batch() -> None:
    """So they arrive in another process."""
    batch = _load(_sounds(), num_samples=800, sample_rate=_RATE, start=0)
    same = pickle.loads(pickle.dumps(batch))
    assert same.excerpts == batch.excerpts
    assert np.array_equal(_array(same), _array(batch))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_samples": 0}, ValueError),
        ({"num_samples": -5}, ValueError),
        ({"num_samples": 1.5}, TypeError),
        ({"num_samples": 2**70}, ValueError),
        ({"sample_rate": 0}, ValueError),
        ({"num_channels": 1000}, ValueError),
        ({"start": "middle"}, ValueError),
        ({"start": float("nan")}, ValueError),
        ({"start": [0.0]}, ValueError),
        ({"start": None}, TypeError),
        ({"start": "random"}, ValueError),
        ({"start": "random", "seeds": [1]}, ValueError),
        ({"start": "random", "seeds": [-1, 2, 3]}, ValueError),
        ({"start": "random", "seed": 1, "seeds": [1, 2, 3]}, ValueError),
        ({"num_threads": -1}, ValueError),
        ({"num_threads": 2**40}, ValueError),
        ({"missing": "skip"}, ValueError),
        ({"dtype": "uint8"}, ValueError),
        ({"demux_config": 1}, TypeError),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    """Numbers out of range and of other types raise before a source is opened."""
    arguments = {"num_samples": 800, "sample_rate": _RATE, "start": 0.0, **options}
    with pytest.raises(error):
        _load(["missing"] * 3, **arguments)
    with pytest.raises(ValueError, match="at least one source"):
        _load([], num_samples=1, sample_rate=1, start=0)


def test_a_batch_that_does_not_fit_into_memory_raises() -> None:
    """A hostile size is an error, and no crash."""
    with pytest.raises((MemoryError, spdl.io.ConvertError)):
        _load(_sounds(), num_samples=2**47, sample_rate=_RATE, start=0)
    with pytest.raises((MemoryError, spdl.io.ConvertError)):
        _load(["missing"] * 2**12, num_samples=2**48, num_channels=64, sample_rate=_RATE, start=0)


def test_an_absurd_sample_rate_is_refused() -> None:
    """A header may state any rate, and a filter for it would take all memory."""
    data = bytearray(_sounds()[1].read_bytes())
    at = data.index(b"fmt ") + 12
    data[at : at + 4] = (2**31 - 1).to_bytes(4, "little")
    with pytest.raises(spdl.io.BatchLoadError, match="256th at most"):
        _load([bytes(data)], num_samples=100, sample_rate=_RATE, start=0)
