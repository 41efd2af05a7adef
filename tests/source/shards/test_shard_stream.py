"""``ShardStream``: the samples of an index, in order; ranks, workers, equal steps, compression, states, damage."""

import bz2
import gzip
import io
import itertools
import json
import lzma
import pickle
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder
from spdl.resume import ResumeError
from spdl.source import CompressedShardError, ShardError, ShardStream, ShuffleBuffer, TarIndex
from tests.strategies.profiles import cases
from tests.support.shards import tar_of, write_shards

COUNTS = [5, 0, 7, 3, 6, 1]


def texts(samples: Any) -> list[bytes]:
    return [sample["txt"] for sample in samples]


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return write_shards(tmp_path, COUNTS)


def test_samples_are_those_of_the_index(shards: list[Path], tmp_path: Path) -> None:
    """In its order, with braces expanded."""
    stream = ShardStream(f"{tmp_path}/shard-{{000000..000005}}.tar")
    assert list(stream) == list(TarIndex.build(shards)) == list(stream)
    assert stream.shards == [str(path) for path in shards]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_archives_are_read(compress: Callable[[bytes], bytes], shards: list[Path], tmp_path: Path) -> None:
    """Whatever their names; one that is cut off is an error that names it."""
    expected = list(TarIndex.build(shards[0]))
    packed = tmp_path / "packed"
    packed.write_bytes(compress(shards[0].read_bytes()))
    assert [{**sample, "__url__": str(shards[0])} for sample in ShardStream(packed)] == expected
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    with pytest.raises(ShardError, match=r"packed.*(damaged or ends early|ends early)") as caught:
        list(ShardStream(packed))
    assert caught.value.shard == str(packed)


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"])
def test_what_cannot_be_decompressed_is_refused(magic: bytes, tmp_path: Path) -> None:
    """The message says what to give."""
    (tmp_path / "a").write_bytes(magic + bytes(600))
    with pytest.raises(CompressedShardError, match="Give an open_shard that decompresses it"):
        list(ShardStream(tmp_path / "a"))


@pytest.mark.parametrize("stop", [0, 100, 512, 600, 1024, 1100, 1500, 1600, 2048])
def test_a_cut_off_archive_is_an_error(stop: int, tmp_path: Path) -> None:
    """What came before is given. Cut where a header could be, it could also be whole: a warning."""
    path = tmp_path / "cut.tar"
    path.write_bytes(tar_of([("a.txt", b"x" * 100), ("b.txt", b"y" * 600)])[:stop])
    iterator = map(itemgetter("txt"), ShardStream(path))
    if stop == 1024:
        with pytest.warns(UserWarning, match="ends at byte 1024 without the zeros"):
            assert list(iterator) == [b"x" * 100]
        return
    found = [next(iterator)] if stop > 1024 else []
    with pytest.raises(ShardError, match=r"cut\.tar.*ends early"):
        next(iterator)
    assert found == ([b"x" * 100] if stop > 1024 else [])


@cases(60)
@given(
    world_size=st.integers(1, 3),
    num_workers=st.integers(1, 2),
    seed=st.none() | st.integers(),
    epoch=st.integers(0, 3),
)
def test_ranks_and_workers_share_nothing_and_have_all(
    world_size: int, num_workers: int, seed: int | None, epoch: int
) -> None:
    """Whole archives, each read by one of them."""
    found: list[bytes] = []
    for worker in range(num_workers):
        with as_worker(worker, num_workers):
            for rank in range(world_size):
                stream = memory_stream(COUNTS, rank=rank, world_size=world_size, seed=seed, epoch=epoch)
                found += texts(stream)
    assert sorted(found) == sorted(b"%d %d" % (shard, n) for shard, count in enumerate(COUNTS) for n in range(count))


def memory_stream(counts: list[int], **options: Any) -> ShardStream:
    """A stream of archives that are not files."""

    def open_shard(name: str) -> io.BytesIO:
        shard = int(name)
        return io.BytesIO(tar_of([(f"{n}.txt", b"%d %d" % (shard, n)) for n in range(counts[shard])]))

    return ShardStream(map(str, range(len(counts))), open_shard=open_shard, **options)


class as_worker:  # used as a function
    """As in a worker of a ``DataLoader``."""

    def __init__(self, worker: int, num_workers: int) -> None:
        self._info = SimpleNamespace(id=worker, num_workers=num_workers)

    def __enter__(self) -> None:
        self._before = sys.modules.get("torch.utils.data")
        sys.modules["torch.utils.data"] = SimpleNamespace(get_worker_info=lambda: self._info)  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            del sys.modules["torch.utils.data"]
        else:
            sys.modules["torch.utils.data"] = self._before


@pytest.mark.parametrize("num_samples", [1, 7, 11, 40])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_ranks_make_equal_steps(num_samples: int, num_workers: int) -> None:
    """Exactly as many each: what is short is read again, and what is long is cut."""
    counts = [5, 1, 7, 3, 6, 1]
    for rank in range(2):
        found = []
        for worker in range(num_workers):
            with as_worker(worker, num_workers):
                stream = memory_stream(counts, rank=rank, world_size=2, num_samples=num_samples, seed=3)
                own = texts(stream)
            everything = texts(memory_stream(counts))
            assert set(own) <= set(everything)
            found += own
        assert len(found) == num_samples


def test_epochs_have_other_orders_of_archives() -> None:
    """With a seed; without one the order is that given."""
    stream = memory_stream([1] * 8, seed=0)
    first = texts(stream)
    stream.set_epoch(1)
    second = texts(stream)
    assert first != second
    assert sorted(first) == sorted(second) == texts(memory_stream([1] * 8))
    assert (stream.epoch, stream.seed, stream.rank, stream.world_size, stream.num_samples) == (1, 0, 0, 1, None)


@cases(100)
@given(
    counts=st.lists(st.integers(0, 5), min_size=2, max_size=6),
    taken=st.integers(0, 30),
    num_samples=st.none() | st.integers(1, 25),
    seed=st.none() | st.integers(),
)
def test_a_state_goes_on_where_it_was(counts: list[int], taken: int, num_samples: int | None, seed: int | None) -> None:
    """In another process; JSON keeps it; over archives that are read again."""
    counts[0] = counts[1] = 2
    options: dict[str, Any] = {"num_samples": num_samples, "seed": seed}
    stream = memory_stream(counts, epoch=2, **options)
    whole, iterator = texts(stream), iter(stream)
    taken = len(list(itertools.islice(iterator, taken)))
    state = json.loads(json.dumps(stream.state_dict()))
    again = memory_stream(counts, **options)
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert texts(again) == whole[taken:]
    assert texts(again) == whole


def test_states_that_do_not_fit_are_refused() -> None:
    """Of another rank, another number of archives, or of archives that have become shorter."""
    stream = memory_stream([4, 4], rank=1, world_size=2)
    next(itertools.islice(stream, 2, None))
    state = stream.state_dict()
    with pytest.raises(ResumeError, match="rank was 1 and is 0"):
        memory_stream([4, 4], rank=0, world_size=2).load_state_dict(state)
    shorter = memory_stream([4, 1], rank=1, world_size=2)
    shorter.load_state_dict(state)
    with pytest.raises(ResumeError, match="after sample 3: it has 1"):
        list(shorter)


def test_files_are_closed(shards: list[Path]) -> None:
    """Also where an iteration is left early; and copies begin where the original began."""
    stream = ShardStream(shards)
    iterator = iter(stream)
    next(iterator)
    copied = pickle.loads(pickle.dumps(stream))
    del iterator
    assert list(copied) == list(stream)


def test_a_pipeline_resumes_it(shards: list[Path]) -> None:
    """With a buffer that shuffles: what was taken before and what is taken after are all samples, each once."""

    def build() -> Any:
        source = ShuffleBuffer(ShardStream(shards, seed=1), 4, seed=2)
        return (
            PipelineBuilder()
            .add_source(source)
            .pipe(lambda x: x["txt"])
            .add_sink(2)
            .build(num_threads=1, resumable=True)
        )

    pipeline = build()
    with pipeline.auto_stop():
        found = list(itertools.islice(pipeline, 9))
        state = pipeline.state_dict()
    again = build()
    again.load_state_dict(state)
    with again.auto_stop():
        found += list(again)
    assert found == texts(ShuffleBuffer(ShardStream(shards, seed=1), 4, seed=2))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"shards": []}, ValueError, "a shard for each rank, got 0 for 1"),
        ({"shards": ["a"], "world_size": 2}, ValueError, "a shard for each rank, got 1 for 2"),
        ({"shards": ["a"], "num_samples": 0}, ValueError, "num_samples must be >= 1"),
        ({"shards": ["a"], "seed": "x"}, TypeError, "seed must be an int"),
        ({"shards": 5}, TypeError, "int"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], error: type[Exception], said: str) -> None:
    """By name, with what is accepted."""
    with pytest.raises(error, match=said):
        ShardStream(**options)


def test_too_many_workers_are_refused() -> None:
    """A worker without archives would have no samples, where others have."""
    with as_worker(2, 3), pytest.raises(ValueError, match="got 2 shards for 1 ranks of 3 workers"):
        iter(memory_stream([1, 1]))


def test_archives_without_samples_cannot_fill_an_epoch() -> None:
    """An error, and not a loop without end."""
    with pytest.raises(ShardError, match="have no samples, and num_samples asks for 5"):
        list(memory_stream([0, 0], num_samples=5))


def test_two_files_of_the_same_extension_are_an_error(tmp_path: Path) -> None:
    """As in an index."""
    (tmp_path / "a.tar").write_bytes(tar_of([("k.jpg", b"1"), ("k.JPG", b"2")]))
    with pytest.raises(ShardError, match="'k' has two files with the extension 'jpg', the second at byte 1536"):
        list(ShardStream(tmp_path / "a.tar"))
