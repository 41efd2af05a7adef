"""Numbers of NumPy are numbers wherever an argument is one, and mean what Python's numbers of the same value mean."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.dataloader import CacheDataLoader, DataLoader, prefetch_to_device
from spdl.io.utils import set_ffmpeg_log_level, set_memory_cache_limit, trace_counter
from spdl.pipeline import (
    AsyncQueue,
    PipelineBuilder,
    PipelineFailure,
    PriorityThreadPoolExecutor,
    ProcessGroupStatsMonitor,
    Rate,
    Rng,
    SharedMemoryRingBuffer,
    SharedMemorySegmentPool,
    StageInfo,
    cache_iterator,
    profile_pipeline,
)
from spdl.pipeline._engine._passes import rank_and_world
from spdl.pipeline.batching import CostBudget, LengthBuckets, MaxWait, PackSequences
from spdl.pipeline.defs import Collate, Pipe, ProcessPoolExecutorConfig, Retry, SinkConfig, SourceConfig
from spdl.remote import RemoteStore
from spdl.source import (
    DistributedDeterministicSampler,
    DistributedKeyedSampler,
    DistributedRandomSampler,
    KeyedMix,
    KeyedPermutation,
    ShuffleBuffer,
)
from spdl.source.utils import MergeIterator, embed_shuffle, repeat_source

INTEGERS = (np.int64, np.int32, np.uint8)
FLOATS = (np.float64, np.float32)


def builder() -> PipelineBuilder[Any, Any]:
    return PipelineBuilder().add_source(range(6)).pipe(operator.neg)


def built(**options: Any) -> list[int]:
    return sorted(builder().add_sink().build(**options))


def odd(item: int) -> int:
    if item % 2:
        raise ValueError(item)
    return item


def failing(max_failures: Any) -> str:
    """How a pipeline with three failures ends."""
    pipeline = PipelineBuilder().add_source(range(6)).pipe(odd).add_sink().build(max_failures=max_failures)
    try:
        return str(list(pipeline))
    except PipelineFailure as exc:
        return f"{len(exc.exceptions)} failures"


async def use(usage: Any) -> None:
    """Use the result of a monitor that is never run."""


def closing(made: Any) -> None:
    made.close()


def loaded(**arguments: Any) -> list[Any]:
    return sorted(map(str, DataLoader(range(6), output_order="input", **arguments)))


def like(number: Any, value: int) -> Any:
    """The value as an integer of the same type."""
    return type(number)(value) if isinstance(number, int | np.integer) else value


#: A call with an integer, and a value for it.
OF_INTEGERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "build(num_threads)": (lambda n: built(num_threads=n), 2),
    "build(seed)": (lambda n: built(seed=n), 3),
    "build(stage_id)": (lambda n: builder().add_sink().build(stage_id=n).stats().stages[0].info.stage_id, 7),
    "build(max_failures)": (failing, 2),
    "build(max_failures), not reached": (failing, 5),
    "add_source(epochs)": (lambda n: SourceConfig(range(3), epochs=n).epochs, 2),
    "add_source(exclude_keys)": (
        lambda n: list(PipelineBuilder().add_source(range(4), exclude_keys=[n]).add_sink().build()),
        2,
    ),
    "pipe(concurrency)": (lambda n: repr(Pipe(odd, concurrency=n)), 2),
    "pipe(max_failures)": (lambda n: repr(Pipe(odd, max_failures=n)), 2),
    "pipe(retry)": (lambda n: repr(Pipe(odd, retry=n)), 2),
    "aggregate": (lambda n: list(builder().aggregate(n).add_sink().build()), 4),
    "add_sink": (lambda n: SinkConfig(n), 4),
    "Collate": (lambda n: Collate(n).num_items, 4),
    "Rate(per)": (lambda n: Rate(0.5, per=n), 4),
    "Retry": (lambda n: Retry(n), 4),
    "ProcessPoolExecutorConfig": (lambda n: ProcessPoolExecutorConfig(n), 4),
    "Rng": (lambda n: Rng(n).numpy().integers(1000), 4),
    "AsyncQueue": (lambda n: AsyncQueue(StageInfo(0, "1", "q"), buffer_size=n).maxsize, 4),
    "MaxWait": (lambda n: repr(MaxWait(n, 1.0)), 4),
    "CostBudget(max_items)": (lambda n: repr(CostBudget(5.0, cost=abs, max_items=n)), 4),
    "LengthBuckets(batch_size)": (lambda n: repr(LengthBuckets([1, 2], n, length=abs)), 4),
    "PackSequences": (lambda n: repr(PackSequences(n, open_bins=n)), 4),
    "priority": (lambda n: PriorityThreadPoolExecutor(1).get_executor(priority=n).priority, 4),
    "PriorityThreadPoolExecutor": (lambda n: PriorityThreadPoolExecutor(n) and None, 4),
    "SharedMemoryRingBuffer": (lambda n: closing(SharedMemoryRingBuffer(n)), 200),
    "SharedMemorySegmentPool": (lambda n: closing(SharedMemorySegmentPool(n, n)), 2),
    "cache_iterator": (lambda n: list(cache_iterator([1, 2, 3], n, stop_after=n)), 2),
    "profile_pipeline": (lambda n: [each.name for each in profile_pipeline(builder().add_sink().get_config(), n)], 2),
    "DataLoader(batch_size)": (lambda n: (len(DataLoader(range(6), batch_size=n)), loaded(batch_size=n)), 4),
    "DataLoader(num_threads)": (lambda n: loaded(num_threads=n), 4),
    "DataLoader(seed)": (lambda n: loaded(seed=n), 4),
    "DataLoader(buffer_size)": (lambda n: loaded(buffer_size=n), 4),
    "DataLoader(retry)": (lambda n: loaded(retry=n, preprocessor=abs), 4),
    "DataLoader(max_failures)": (lambda n: loaded(max_failures=n, preprocessor=abs), 4),
    "CacheDataLoader": (lambda n: list(CacheDataLoader([1, 2, 3], n, n, stop_after=n)), 2),
    "prefetch_to_device": (lambda n: prefetch_to_device([1, 2], num_prefetch=n).num_prefetch, 2),
    "DistributedKeyedSampler": (
        lambda n: list(DistributedKeyedSampler(n, rank=like(n, 0), world_size=like(n, 2), seed=n, epoch=n)),
        9,
    ),
    "DistributedKeyedSampler.set_epoch": (lambda n: of_epoch(DistributedKeyedSampler(9), n), 4),
    "DistributedRandomSampler": (
        lambda n: list(DistributedRandomSampler(n, rank=like(n, 0), world_size=like(n, 1), num_draws=n, seed=n)),
        9,
    ),
    "DistributedDeterministicSampler": (
        lambda n: list(DistributedDeterministicSampler(n, rank=like(n, 0), world_size=like(n, 1))),
        9,
    ),
    "KeyedMix": (lambda n: list(KeyedMix([range(3), range(4)], [n, 1], at_end="stop", seed=n)), 2),
    "KeyedPermutation": (lambda n: list(KeyedPermutation(n, n)), 9),
    "ShuffleBuffer": (lambda n: list(ShuffleBuffer([1, 2, 3], n, seed=n)), 2),
    "MergeIterator": (lambda n: list(MergeIterator([[1, 2], [3]], stop_after=n, seed=n)), 2),
    "embed_shuffle": (lambda n: list(embed_shuffle(DistributedKeyedSampler(9), epoch=n)), 2),
    "repeat_source": (lambda n: repeat_source([1], n).epoch, 2),
    "RemoteStore(attempts)": (lambda n: RemoteStore("file:///nowhere", attempts=n).url, 3),
    "demux_config(buffer_size)": (lambda n: spdl.io.demux_config(buffer_size=n), 100),
    "demux_config(format_options)": (lambda n: spdl.io.demux_config(format_options={"probesize": n}), 100),
    "video_encode_config": (
        lambda n: spdl.io.video_encode_config(
            height=n, width=n, frame_rate=(n, n), bit_rate=n, compression_level=n, qscale=n, gop_size=n, max_b_frames=n
        ),
        8,
    ),
    "audio_encode_config": (
        lambda n: spdl.io.audio_encode_config(num_channels=n, sample_rate=n, bit_rate=n, compression_level=n, qscale=n),
        8,
    ),
    "get_video_filter_desc": (
        lambda n: spdl.io.get_video_filter_desc(
            frame_rate=(n, n),
            scale_width=n,
            scale_height=n,
            crop_width=n,
            crop_height=n,
            num_frames=n,
        ),
        8,
    ),
    "get_audio_filter_desc": (
        lambda n: spdl.io.get_audio_filter_desc(sample_rate=n, num_channels=n, num_frames=n),
        8,
    ),
    "cpu_storage": (lambda n: spdl.io.cpu_storage(n, pin_memory=False) and None, 100),
    "cuda_config": (lambda n: spdl.io.cuda_config(n), 0),
    "ImageTransform": (lambda n: spdl.io.ImageTransform(size=(n, n), fill=n), 8),
    "ImageTransform.plan": (lambda n: spdl.io.ImageTransform(size=n).plan(n, n, n), 8),
    "Crop": (lambda n: spdl.io.Crop(n, n, n, n), 8),
    "trace_counter": (lambda n: trace_counter(n, n), 3),
    "set_ffmpeg_log_level": (lambda n: set_ffmpeg_log_level(n), 16),
    "set_memory_cache_limit": (lambda n: set_memory_cache_limit(n), 200),
    "rank": (lambda n: rank_and_world(Ranked(n, n + n)), 3),
}

#: A call with a number of seconds or the like, and a value for it that all types have.
OF_FLOATS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "build(stall_timeout)": (lambda x: built(stall_timeout=x), 1000.5),
    "build(report_stats_interval)": (lambda x: built(report_stats_interval=x), 1000.5),
    "pipe(call_timeout)": (lambda x: repr(Pipe(odd, call_timeout=x)), 1000.5),
    "Rate(share)": (lambda x: Rate(x, per=100).most, 0.5),
    "Retry(delay)": (lambda x: Retry(2, delay=x, max_delay=x, jitter=x, timeout_per_attempt=x), 0.5),
    "Retry(backoff)": (lambda x: Retry(2, backoff=x), 1.5),
    "get_item(timeout)": (lambda x: got(timeout=x), 100.5),
    "MaxWait": (lambda x: repr(MaxWait(3, x)), 0.5),
    "CostBudget": (lambda x: repr(CostBudget(x, cost=abs)), 4.5),
    "LengthBuckets": (lambda x: repr(LengthBuckets([x], max_cost=x, length=abs)), 4.5),
    "SharedMemoryRingBuffer": (lambda x: closing(SharedMemoryRingBuffer(200, acquire_timeout=x)), 4.5),
    "ProcessGroupStatsMonitor": (lambda x: ProcessGroupStatsMonitor(use, interval=x) and None, 4.5),
    "DataLoader(timeout)": (lambda x: loaded(timeout=x, call_timeout=x, stall_timeout=x), 100.5),
    "RemoteStore(timeout)": (lambda x: RemoteStore("file:///nowhere", timeout=x).url, 4.5),
    "demux_config(timeout)": (lambda x: spdl.io.demux_config(timeout=x), 4.5),
    "demux_config(format_options)": (lambda x: spdl.io.demux_config(format_options={"a": x}), 4.5),
    "get_video_filter_desc": (lambda x: spdl.io.get_video_filter_desc(timestamp=(x, 2 * x)), 4.5),
    "ImageTransform": (
        lambda x: spdl.io.ImageTransform(size=8, flip=x, vertical_flip=x, dtype="float32", mean=x, std=x),
        0.5,
    ),
    "RandomResizedCrop": (lambda x: spdl.io.RandomResizedCrop(scale=(x, 1.0), ratio=(x, 1.0)), 0.5),
    "trace_counter": (lambda x: trace_counter(0, x), 0.5),
}


class Ranked:
    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size


def of_epoch(sampler: Any, epoch: Any) -> list[int]:
    sampler.set_epoch(epoch)
    return list(sampler)


def got(**arguments: Any) -> Any:
    pipeline = builder().add_sink().build()
    with pipeline.auto_stop(**arguments):
        return pipeline.get_item(**arguments)


@pytest.mark.parametrize("name", sorted(OF_INTEGERS))
def test_integers_of_numpy_are_integers(name: str) -> None:
    """In all widths."""
    call, value = OF_INTEGERS[name]
    wanted = call(value)
    for kind in INTEGERS:
        assert call(kind(value)) == wanted


@pytest.mark.parametrize("name", sorted(OF_FLOATS))
def test_floats_of_numpy_are_numbers(name: str) -> None:
    """In both widths."""
    call, value = OF_FLOATS[name]
    wanted = call(value)
    for kind in FLOATS:
        assert call(kind(value)) == wanted


#: What is no number of anything. No argument takes several.
NO_NUMBERS: list[Any] = [True, np.True_, math.nan, np.float32("nan"), "3", b"1", 1j, np.array([1, 2])]
#: The argument that the error names: of calls with several, the first that is checked. Otherwise it is in parentheses.
NAMES = {
    "AsyncQueue": "buffer_size",
    "CacheDataLoader": "num_caches",
    "Collate": "n",
    "CostBudget": "max_cost",
    "Crop": "top",
    "DataLoader(timeout)": "stall_timeout|call_timeout",
    "DistributedDeterministicSampler": "n",
    "DistributedKeyedSampler": "n",
    "DistributedKeyedSampler.set_epoch": "epoch",
    "DistributedRandomSampler": "n",
    "ImageTransform": "size|flip",
    "ImageTransform.plan": "size|seed",
    "KeyedMix": "weights",
    "KeyedPermutation": "n",
    "LengthBuckets": "boundary",
    "MaxWait": "max_items|seconds",
    "MergeIterator": "stop_after",
    "PackSequences": "length",
    "PriorityThreadPoolExecutor": "max_workers",
    "ProcessGroupStatsMonitor": "interval",
    "ProcessPoolExecutorConfig": "max_workers",
    "RandomResizedCrop": "scale",
    "Retry": "attempts",
    "Retry(delay)": "timeout_per_attempt",
    "Rng": "seed",
    "SharedMemoryRingBuffer": "capacity|acquire_timeout",
    "SharedMemorySegmentPool": "segment_size",
    "ShuffleBuffer": "size",
    "add_sink": "buffer_size",
    "aggregate": "aggregate|n",
    "audio_encode_config": "num_channels",
    "build(max_failures), not reached": "max_failures",
    "cache_iterator": "num_caches",
    "cpu_storage": "size",
    "cuda_config": "device_index",
    "embed_shuffle": "epoch",
    "get_audio_filter_desc": "num_channels",
    "get_video_filter_desc": "scale_width|timestamp",
    "prefetch_to_device": "num_prefetch",
    "profile_pipeline": "num_inputs",
    "repeat_source": "epoch",
    "set_ffmpeg_log_level": "val",
    "set_memory_cache_limit": "num_bytes",
    "trace_counter": "i",
    "video_encode_config": "height",
}
#: Keys of any type, options as text for FFmpeg, and an attribute of a sampler of others.
NO_CHECKS = {"add_source(exclude_keys)", "demux_config(format_options)", "rank"}
#: Where a negative number means something: no limit, as FFmpeg reads it, any seed or epoch.
MAY_BE_NEGATIVE = {
    *("AsyncQueue", "DistributedKeyedSampler.set_epoch", "build(stage_id)", "embed_shuffle", "priority"),
    *("DataLoader(max_failures)", "build(max_failures)", "build(max_failures), not reached", "pipe(max_failures)"),
    *("DataLoader(seed)", "build(seed)", "repeat_source", "build(report_stats_interval)", "set_ffmpeg_log_level"),
    *("get_audio_filter_desc", "get_video_filter_desc"),
}


def refused(name: str, call: Callable[[Any], Any], given: Any) -> None:
    """The error begins with the argument's name."""
    argument = NAMES.get(name) or name.partition("(")[2].rstrip(")") or name
    errors: tuple[type[Exception], ...] = (TypeError, ValueError)
    if name in ("cpu_storage", "trace_counter"):  # which raise errors of their own
        errors = (*errors, spdl.io.ConvertError, RuntimeError)
    with pytest.raises(errors, match=rf"^(a |a bound of |cannot allocate storage: |Counter )?({argument}|-3)\b"):
        call(given)


@pytest.mark.parametrize("given", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", sorted(OF_INTEGERS.keys() - NO_CHECKS))
def test_what_is_no_integer_is_refused(name: str, given: Any) -> None:
    """By all that take one, at the call."""
    refused(name, OF_INTEGERS[name][0], given)


@pytest.mark.parametrize("given", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", sorted(OF_FLOATS.keys() - NO_CHECKS - {"trace_counter"}))
def test_what_is_no_number_is_refused(name: str, given: Any) -> None:
    """By all that take one, at the call."""
    if name == "get_video_filter_desc" and isinstance(given, str):
        pytest.skip("bounds may be text")
    refused(name, OF_FLOATS[name][0], given)


@pytest.mark.parametrize("kind", [int, *INTEGERS[:2], *FLOATS])
@pytest.mark.parametrize("name", sorted((OF_INTEGERS.keys() | OF_FLOATS.keys()) - NO_CHECKS - MAY_BE_NEGATIVE))
def test_negative_numbers_are_refused_where_they_mean_nothing(name: str, kind: Callable[[int], Any]) -> None:
    """Of all kinds."""
    for table in (OF_INTEGERS, OF_FLOATS):
        if name in table and not (table is OF_FLOATS and name == "trace_counter"):
            refused(name, table[name][0], kind(-3))


NOT_INTEGERS: list[Any] = [True, np.True_, 1.0, np.float64(2), "3", None, b"1", 1j, Fraction(2), [3], np.array([1, 2])]


@pytest.mark.parametrize(
    "name", ["build(seed)", "DataLoader(seed)", "RemoteStore(attempts)", "Rng", "pipe(concurrency)"]
)
@pytest.mark.parametrize("given", NOT_INTEGERS, ids=[f"{type(each).__name__}" for each in NOT_INTEGERS])
def test_other_things_are_no_integers(name: str, given: Any) -> None:
    """Least of all True; the error says which argument and what came."""
    call, _ = OF_INTEGERS[name]
    if given is None and name == "RemoteStore(attempts)":
        pytest.skip("None is its default: as many as the time allows")
    word = name.partition("(")[2].rstrip(")")
    with pytest.raises(TypeError, match=f"{word} must be an int, got "):
        call(given)
