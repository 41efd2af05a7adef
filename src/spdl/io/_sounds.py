"""``load_audio_batch``: load excerpts of audio into one batch."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from spdl._names import renamed
from spdl.io import _native
from spdl.io._images._load_transformed import as_memory
from spdl.io._media._config import DecodeConfig, DemuxConfig, check_arguments, native_options
from spdl.io._media._sound import SOUND_DTYPES, as_count, as_sound_dtype, is_stream_clock
from spdl.io._source import as_sources
from spdl.io._trace import traced
from spdl.io._types import Source

from ._batch import Loaded, Missing, Statuses, as_seeds, as_starts, finish

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer


@renamed(on_failure="missing")
@traced
def load_audio_batch(
    srcs: Iterable[Source],
    *,
    num_samples: int,
    sample_rate: int,
    num_channels: int = 1,
    start: float | Sequence[float] | Literal["random"] = "random",
    seed: SupportsIndex | None = None,
    seeds: Iterable[SupportsIndex] | None = None,
    dtype: Literal["float32", "float64", "int16", "int32"] = "float32",
    origin: Literal["first_sample", "stream"] = "first_sample",
    out: Any = None,
    storage: Any = None,
    num_threads: int = 0,
    strict: bool = True,
    missing: Missing = "drop",
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
) -> "CPUBuffer":
    """Load an excerpt of each of several sounds into one batch, in one native call without the GIL.

    ::

        seeds = sample_seeds(seed=0, epoch=0, indices=range(len(sounds)))
        batch = load_audio_batch(sounds, num_samples=16000, sample_rate=16000, seeds=seeds)
        lengths = [excerpt.length for excerpt in batch.excerpts]  # the rest is silence

    Only the excerpt is decoded: if the format allows it (the guide lists these formats), the source is read from where
    the excerpt begins. Resampling also uses the samples before and after the excerpt, so the result is the same as
    resampling the whole source and then cutting.

    Args:
        srcs: Paths, URLs, or encoded data in memory, which is read in place and cannot be resized during the call.
        num_samples: Number of samples of each excerpt, at the output rate. Before the first and after the last sample
            of a source there is silence.
        sample_rate: Sample rate of the batch, in Hz.
        num_channels: Number of channels of the batch. Sources with another number of channels are mixed as by
            ``load_audio``: one channel is the mean of all, and each of several is a copy of a single one.
        start: ``"random"``: all excerpts that fit into the source are equally likely; a source that is too short is
            taken from its beginning. Or the start in seconds, for all or one per source: sample ``k`` of all that
            ``load_audio`` returns at the output rate has the time ``k / sample_rate``, and the excerpt begins with the
            first sample for which ``start <= time``.
        seed: Seed for the random starts of the batch. Source ``i`` gets ``sample_seeds(seed, 0, [i])``.
        seeds: Integers in ``[0, 2**64)``, one per source, as made by ``sample_seeds``, instead of ``seed``. A start
            depends only on the seed, the duration of the source, the rate and the number of samples.
        dtype: Dtype of the batch; floats go from -1 to 1.
        origin: What starts are counted from, also those in ``excerpts``: as for ``load_audio``.
        out: Array to fill, instead of ``storage``: a writable C-contiguous array or CPU tensor with exactly the dtype
            and shape of a whole batch, or a one-dimensional byte buffer of at least that size. The result is a view of
            it.
        storage: Memory for the batch: any writable C-contiguous buffer that is large enough.
        num_threads: Number of threads that share the work, including the caller's thread. 0 and 1: only the caller's
            thread. The result does not depend on it.
        strict: Whether to raise if any sound is missing. With ``False``, see ``missing``.
        missing: Policy for sources that failed, with ``strict=False``. ``"drop"``: the batch has fewer sounds, in
            the same order; it is never empty. ``"zero"``: they are silent, even if all sources failed.
        demux_config: Options for opening the sources, from ``demux_config``.
        decode_config: Options for decoding, from ``decode_config``.

    Returns:
        ``(sounds, num_channels, num_samples)``, C-contiguous. For each sound, ``excerpts`` has its start in the source
        and the number of samples before the padding at its end; ``origins`` has the position of its source in ``srcs``.
        ``failures`` lists the sources that could not be loaded.

    Raises:
        ValueError: ``srcs`` is empty, a number is out of range, seeds are missing for random starts, or ``out`` has
            another dtype or shape.
        TypeError: An argument has the wrong type.
        BatchLoadError: A sound is missing and ``strict`` is set, or all are missing; ``.failures`` lists all failures.
            A source fails if its ``start`` is outside the stream.
        MemoryError: There is not enough memory.
        ConvertError: The storage is too small.

    Safe to call from several threads. Ctrl-C interrupts the call.
    """
    check_arguments(demux_config, decode_config, None)
    statuses = Statuses(strict, missing, num_threads)
    sources = as_sources("srcs", srcs)
    count = len(sources)
    element = as_sound_dtype(dtype)
    shape = (count, as_count("num_channels", num_channels), as_count("num_samples", num_samples))
    rate = as_count("sample_rate", sample_rate)
    is_random = isinstance(start, str)
    if is_random and start != "random":
        raise ValueError(f"start must be 'random' or a number of seconds, got {start!r}")
    starts = None if is_random else as_starts(start, count)
    numbers = as_seeds(seed, seeds, count, needed_for="start='random'" if is_random else None)
    by_stream_clock = is_stream_clock(origin)
    memory = as_memory(out, storage, element, shape, SOUND_DTYPES[element])
    buffer = _native.media.new_batch(shape, element, memory)

    def load(native_sources: list[Any]) -> Loaded:
        return _native.media.load_sounds(
            buffer,
            list(range(count)),
            native_sources,
            sources,
            first_index=0,
            starts=starts,
            seeds=numbers if is_random else None,
            sample_rate=rate,
            dtype=element,
            by_stream_clock=by_stream_clock,
            **native_options(demux_config, decode_config, sources),
            num_threads=statuses.num_threads,
        )

    return finish(buffer, sources, statuses, load, kind="sound")
