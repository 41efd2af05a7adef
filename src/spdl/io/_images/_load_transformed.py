"""The form of ``load_image_batch`` with ``transform``: seeds, replay, spares, output memory."""

from collections.abc import Iterable
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from spdl._numbers import MAX_INT, as_bool, as_int, require_word
from spdl.io import _native
from spdl.io._buffers import as_storage
from spdl.io._source import as_native_sources, as_sources, fetch_all, require_several
from spdl.io._types import MAX_PIXELS, LoadFailure, Source

from ._applied import AppliedTransform, Plan, plan_of
from ._image_transform import ImageTransform, native_transform
from ._outcomes import as_names, report_failures, with_ffmpeg_on_demand, with_names
from ._seeds import seeds_of_sources

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer

# Maximum number of spares per source. It ends the attempts if an endless iterator of spares keeps failing.
_MAX_SPARES_PER_SOURCE = 100
#: Dtype of images -> bytes per element.
NUM_BYTES = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
# Formats of the buffer protocol -> dtypes; "E" is bfloat16 in `CPUBuffer` and in ml_dtypes.
_FORMATS = {"B": "uint8", "e": "float16", "E": "bfloat16", "f": "float32", "d": "float64", "h": "int16", "i": "int32"}


def load_transformed(
    srcs: Iterable[Source],
    *,
    transform: ImageTransform,
    out: Any = None,
    num_threads: int = 0,
    seeds: Iterable[SupportsIndex] | None = None,
    replay: Iterable[AppliedTransform | None] | None = None,
    strict: bool = True,
    missing: Literal["drop", "zero"] = "drop",
    spares: Iterable[Source] = (),
    storage: Any = None,
    max_pixels: int = MAX_PIXELS,
    names: Iterable[str | None] | None = None,
) -> "CPUBuffer":
    """``load_image_batch`` with a transform; documented there."""
    if not isinstance(transform, ImageTransform):
        raise TypeError(f"transform must be an ImageTransform, got {type(transform).__name__}")
    sources = as_sources("srcs", srcs)
    given_names = as_names(names, len(sources))
    num_threads = as_int("num_threads", num_threads, 0, MAX_INT)
    strict = as_bool("strict", strict)
    require_word("missing", missing, ("drop", "zero"))
    require_several("spares", spares)
    batch = _Batch(
        transform,
        sources,
        seeds=_as_seeds(seeds, transform, len(sources), has_replay=replay is not None),
        replay=None if replay is None else _as_plans(replay, transform, len(sources)),
        max_pixels=as_int("max_pixels", max_pixels, 1, MAX_INT),
        num_threads=num_threads,
        memory=as_memory(out, storage, transform.dtype, (len(sources), *transform.shape), NUM_BYTES[transform.dtype]),
    )
    if batch.empty:
        batch.fill_from(spares)
    # With "zero", all images may be missing, because ranks that run in step need batches of the same size. With "drop",
    # at least one image must remain.
    most_missing = 0 if strict else len(sources) - (missing == "drop")
    batch.failures = with_names(batch.failures, given_names)
    report_failures(batch.failures, len(sources), len(batch.empty), most_missing=most_missing)
    return batch.finish(missing)


class _Batch:
    """A batch with one slot per source, some of which may still be empty. Not thread-safe."""

    def __init__(
        self,
        transform: ImageTransform,
        sources: list[Source],
        *,
        seeds: list[int] | None,
        replay: list[Plan] | None,
        max_pixels: int,
        num_threads: int,
        memory: Any,
    ) -> None:
        self._transform = native_transform(transform)
        self._num_sources = len(sources)
        self._seeds = seeds
        self._replay = replay
        self._max_pixels = max_pixels
        self._num_threads = num_threads
        self._buffer: CPUBuffer = _native.core.new_batch(self._transform, len(sources), memory)
        slots = list(range(len(sources)))
        self._origins: list[int | None] = [*slots]
        self.failures = self._load(slots, sources, 0)
        #: Slots without an image, in ascending order.
        self.empty = [failure.index for failure in self.failures]

    def fill_from(self, spares: Iterable[Source]) -> None:
        """Load spares into the empty slots, in order; each round loads one spare per empty slot."""
        num_taken = 0
        rest = islice(spares, _MAX_SPARES_PER_SOURCE * self._num_sources)
        while self.empty:
            taken = list(islice(rest, len(self.empty)))
            if not taken:
                return
            slots, first_index = self.empty[: len(taken)], self._num_sources + num_taken
            num_taken += len(taken)
            failures = self._load(slots, taken, first_index)
            failed = {slots[failure.index - first_index] for failure in failures}
            for index, slot in enumerate(slots, first_index):
                self._origins[slot] = index
            self.failures += failures
            self.empty = [slot for slot in slots if slot in failed] + self.empty[len(taken) :]

    def finish(self, missing: str) -> "CPUBuffer":
        """Drop missing images or set them to zero, and return the buffer."""
        core = _native.core
        if self.empty:
            empty = set(self.empty)
            if missing == "zero":
                core.clear_slots(self._buffer, self.empty)
                self._origins = [None if slot in empty else origin for slot, origin in enumerate(self._origins)]
            else:
                kept = [slot for slot in range(self._num_sources) if slot not in empty]
                core.keep_slots(self._buffer, kept)
                self._origins = [self._origins[slot] for slot in kept]
        core.set_origins(self._buffer, tuple(self._origins))
        core.set_failures(self._buffer, self.failures)
        return self._buffer

    def _load(self, slots: list[int], sources: list[Source], first_index: int) -> tuple[LoadFailure, ...]:
        fetched = fetch_all(as_native_sources(sources), self._num_threads)
        is_whole = len(slots) == self._num_sources
        seeds, replay = self._seeds, self._replay
        if not is_whole:
            seeds = None if seeds is None else [seeds[slot] for slot in slots]
            replay = None if replay is None else [replay[slot] for slot in slots]

        def load(fallback_loader: object) -> tuple[LoadFailure, ...] | None:
            return _native.core.load_slots(
                self._buffer,
                slots,
                fetched.sources,
                sources,
                first_index=first_index,
                transform=self._transform,
                seeds=seeds,
                replay=replay,
                max_pixels=self._max_pixels,
                num_threads=self._num_threads,
                fallback_loader=fallback_loader,
            )

        return tuple(fetched.failure(failure, first_index) for failure in with_ffmpeg_on_demand(load))


def _as_seeds(
    seeds: Iterable[SupportsIndex] | None, transform: ImageTransform, count: int, *, has_replay: bool
) -> list[int] | None:
    if seeds is None:
        if transform.is_random and not has_replay:
            raise ValueError(
                f"seeds must be given for a random transform, one per source, got None for {transform!r};"
                " sample_seeds makes them"
            )
        return None
    if has_replay:
        raise ValueError("seeds and replay exclude each other: replay fixes the random choices; leave one of them out")
    return seeds_of_sources(seeds, count)


def _as_plans(replay: Iterable[AppliedTransform | None], transform: ImageTransform, count: int) -> list[Plan]:
    items: list[Any] = list(replay)
    if len(items) != count:
        raise ValueError(f"replay must have one item per source: {count}, got {len(items)}")
    for index, item in enumerate(items):
        if not isinstance(item, AppliedTransform):
            remedy = ": leave out the source of an image that is only zeros" if item is None else ""
            raise TypeError(f"replay[{index}] must be an AppliedTransform, got {type(item).__name__}{remedy}")
        if item.size != transform.size:
            raise ValueError(
                f"replay[{index}] must have the size of the transform, {transform.size}, got size={item.size}"
            )
    return [plan_of(item) for item in items]


def as_memory(out: Any, storage: Any, dtype: str, shape: tuple[int, ...], num_bytes: int) -> Any:
    """The user's output memory for native code; ``None`` if there is none. ``num_bytes``: of an element of the batch.

    Raises ``TypeError`` or ``ValueError``.
    """
    if out is None:
        return None if storage is None else as_storage(storage)
    if storage is not None:
        raise ValueError(
            "out and storage exclude each other: out is the array to fill, storage is memory for a new array"
        )
    return _as_out(out, dtype, shape, num_bytes)


def _as_out(out: Any, dtype: str, shape: tuple[int, ...], element_size: int) -> Any:
    """The memory of ``out``: an array of exactly this dtype and shape, or a byte buffer of at least that size."""
    expected = f"{dtype} of shape {shape}"
    given, given_shape = _element_and_shape(out)
    is_bytes = given == "uint8" and len(given_shape) == 1
    if not is_bytes and (given != dtype or given_shape != shape):
        raise ValueError(f"out must be {expected}, got {given} of shape {given_shape}")
    num_bytes = prod(shape) * element_size
    if is_bytes and given_shape[0] < num_bytes:
        raise ValueError(f"out must have at least {num_bytes} bytes, for {expected}, got {given_shape[0]}")
    # NumPy does not accept torch tensors that require gradients.
    memory: Any = as_storage(out.detach() if hasattr(out, "detach") else out)
    try:
        view = memoryview(memory)
        is_readonly, is_contiguous = view.readonly, view.c_contiguous
    except ValueError:  # the buffer protocol does not know the dtypes of ml_dtypes
        is_readonly, is_contiguous = not memory.flags.writeable, memory.flags.c_contiguous
    if is_readonly or not is_contiguous:
        raise TypeError(
            f"out must be writable and C-contiguous, got one that is {'read-only' if is_readonly else 'strided'}"
        )
    return memory


def _element_and_shape(out: Any) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of an array, tensor or buffer."""
    dtype = getattr(out, "dtype", None)
    if dtype is not None:
        return str(dtype).removeprefix("torch."), tuple(out.shape)
    try:
        view = memoryview(out)
    except TypeError:
        raise TypeError(
            f"out must be a writable C-contiguous array, CPU tensor or other buffer, got {type(out).__name__}"
        ) from None
    if view.ndim == 1 and view.itemsize == 1:
        return "uint8", (view.nbytes,)
    return _FORMATS.get(view.format, f"elements {view.format!r}"), tuple(view.shape or ())
