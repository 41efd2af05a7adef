"""The arguments of ``DataLoader`` in groups, for the overloads from which type checkers infer its output type.

Imported only by type checkers.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Literal, Required, TypeVar

from spdl.pipeline._options import BuildOptions
from spdl.pipeline.defs import Aggregator, Op, OutputOrder, Retry

S = TypeVar("S")
V = TypeVar("V")

Items = Iterable[S] | AsyncIterable[S]
#: A function that returns its output, or ``None`` to drop the item.
Call = Callable[[S], V | None]
#: Functions whose outputs differ from their return values.
Streams = Callable[[Any], AsyncIterator[V]] | Callable[[Any], Awaitable[V | None]] | Callable[[Any], Iterator[V]]
Batches = int | Aggregator[Any, Any] | None


class Options(BuildOptions, total=False):
    """Arguments that do not change the type of the outputs."""

    drop_last: bool
    buffer_size: int
    timeout: float | None
    output_order: OutputOrder
    retry: int | Retry | None
    call_timeout: float | None


class Typed(Options, total=False):
    """Arguments beside functions that take no random numbers; those that do are not typed."""

    rng: Literal[False]


class Transferred(Typed, total=False):
    """Arguments beside ``transfer_fn``."""

    preprocessor: Op | None
    batch_size: Batches
    aggregator: Op | None


class Collated(Typed, total=False):
    """Arguments beside ``aggregator``, if no stage follows it."""

    preprocessor: Op | None
    batch_size: Batches
    transfer_fn: None


class Grouped(Typed, total=False):
    """Arguments beside an object that makes the batches, if no stage follows it."""

    preprocessor: Op | None
    aggregator: None
    transfer_fn: None


class Listed(Typed, total=False):
    """Arguments beside ``preprocessor``, for outputs that are lists."""

    batch_size: Required[int]
    aggregator: None
    transfer_fn: None


class Single(Typed, total=False):
    """Arguments beside ``preprocessor``, for outputs that are items."""

    batch_size: None
    aggregator: None
    transfer_fn: None


class ListedSources(Listed, total=False):
    """Arguments for outputs that are lists of the source's items."""

    preprocessor: None


class SingleSources(Single, total=False):
    """Arguments for outputs that are the source's items."""

    preprocessor: None


class Untyped(Typed, total=False):
    """Arguments beside a container as the ``preprocessor``."""

    batch_size: Batches
    aggregator: Op | None
    transfer_fn: Op | None


class Random(Options, total=False):
    """Arguments beside ``rng``."""

    preprocessor: Op | None
    batch_size: Batches
    aggregator: Op | None
    transfer_fn: Op | None
