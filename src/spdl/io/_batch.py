"""Shared code of ``load_video_clips`` and ``load_audio_batch``: sources, seeds, start positions and failures."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from spdl._numbers import as_bool, as_float, as_int, require_word
from spdl.io import _native
from spdl.io._images._outcomes import report_failures
from spdl.io._images._seeds import sample_seeds, seeds_of_sources
from spdl.io._source import as_native_sources, fetch_all, open_blocks
from spdl.io._types import Excerpt, LoadFailure, Source

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer

Missing = Literal["drop", "zero"]

#: The result of a native call: the failures, and for each source the start and length of its excerpt.
Loaded = tuple[tuple[LoadFailure, ...], Sequence[tuple[float, int] | None]]


@dataclass(frozen=True, slots=True)
class Statuses:
    """The number of threads that share the work, and the policy for items that fail."""

    strict: bool
    missing: Missing
    num_threads: int

    def __post_init__(self) -> None:
        """Check the user's arguments; the fields have their names. Raises ``TypeError`` or ``ValueError``."""
        require_word("missing", self.missing, ("drop", "zero"))
        object.__setattr__(self, "strict", as_bool("strict", self.strict))
        object.__setattr__(self, "num_threads", as_int("num_threads", self.num_threads, 0, 2**16 - 1))


def as_seeds(
    seed: SupportsIndex | None, seeds: Iterable[SupportsIndex] | None, count: int, *, needed_for: str | None
) -> list[int] | None:
    """One seed per source; ``None`` if there are none. Raises ``TypeError`` or ``ValueError``.

    ``needed_for``: the random option that requires seeds, for the message; ``None`` if nothing is random.
    """
    if seed is not None and seeds is not None:
        raise ValueError("seed and seeds exclude each other: seed is one for the batch, seeds has one per source")
    if seed is not None:
        return sample_seeds(as_int("seed", seed), 0, range(count))
    if seeds is None:
        if needed_for is not None:
            raise ValueError(f"seed or seeds must be given for {needed_for}; sample_seeds makes one per source")
        return None
    return seeds_of_sources(seeds, count)


def as_starts(start: Any, count: int) -> list[float]:
    """The start of each item in seconds: one for all, or one per source. Raises ``TypeError`` or ``ValueError``."""
    many = hasattr(type(start), "__len__") and getattr(start, "ndim", 1) > 0
    given = list(start) if many else [start] * count
    if len(given) != count:
        raise ValueError(f"start must have one number of seconds per source: {count}, got {len(given)}")
    return [_as_start(each) for each in given]


def _as_start(value: Any) -> float:
    try:
        seconds = as_float("start", value)
    except TypeError:
        raise TypeError(f"start must be a number of seconds or one per source, got {value!r}") from None
    if not math.isfinite(seconds):
        raise ValueError(f"start must be finite, got {value!r}")
    return seconds


def finish(
    buffer: "CPUBuffer", sources: list[Source], statuses: Statuses, load: Callable[[list[Any]], Loaded], *, kind: str
) -> "CPUBuffer":
    """Fill the batch, report failures, and drop or zero the missing items.

    ``load`` loads the sources, as native code reads them, each into its slot. Raises ``BatchLoadError`` if too many
    items are missing.
    """
    core = _native.core
    fetched = fetch_all(as_native_sources(sources), statuses.num_threads, fetch=open_blocks)
    found, parts = load(fetched.sources)
    failures = tuple(map(fetched.failure, found))
    most_missing = 0 if statuses.strict else len(sources) - (statuses.missing == "drop")
    report_failures(failures, len(sources), len(failures), most_missing=most_missing, kind=kind)
    excerpts = [None if part is None else Excerpt(*part) for part in parts]
    kept: list[int] = [index for index, excerpt in enumerate(excerpts) if excerpt is not None]
    origins: list[int | None] = [*range(len(sources))]
    if len(kept) < len(sources):
        if statuses.missing == "zero":
            core.clear_slots(buffer, [index for index, excerpt in enumerate(excerpts) if excerpt is None])
            origins = [None if excerpts[index] is None else index for index in range(len(sources))]
        else:
            core.keep_slots(buffer, kept)
            origins, excerpts = [*kept], [excerpts[index] for index in kept]
    core.set_origins(buffer, tuple(origins))
    core.set_excerpts(buffer, tuple(excerpts))
    core.set_failures(buffer, failures)
    return buffer
