"""Stages that batch items, and stages that split batches into items."""

import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from spdl._numbers import as_int

from ._stage import PathStage

T = TypeVar("T")
U = TypeVar("U")
T_contra = TypeVar("T_contra", contravariant=True)
U_co = TypeVar("U_co", covariant=True)


@final
class Outputs(Generic[U]):
    """Several outputs of one call of an :class:`Aggregator`. Each is emitted as a separate item, in order.

    Args:
        values: Iterable of outputs, exhausted at once. It may be empty; ``None`` values are not emitted.
        dropped: Whether the item just accumulated is dropped on purpose. It will be in no output, and the statistics
            count it.
        inputs: For each output, the ages of the items in it: 0 is the last accumulated item, 1 the one before, and so
            on. With them, the pipeline knows exactly which source positions an output comes from and which are still
            in the aggregator. ``None``: the outputs contain all items accumulated since the previous output. An item
            in several outputs counts as consumed when all of them are.
        unfinished: Ages of items that these outputs contain only in part: later outputs contain the rest.

    Attributes:
        values: Outputs, as a tuple.
        dropped: Same as the argument.
        inputs: Tuple of tuples, or ``None``.
        unfinished: Tuple of ints.

    Raises:
        ValueError: ``inputs`` and ``values`` differ in length, or ``unfinished`` is given without ``inputs``.
        TypeError: ``inputs`` or ``unfinished`` contains something other than ints.
    """

    __slots__ = ("dropped", "inputs", "unfinished", "values")

    def __init__(
        self,
        values: Iterable[U] = (),
        *,
        dropped: bool = False,
        inputs: Iterable[Iterable[int]] | None = None,
        unfinished: Iterable[int] = (),
    ) -> None:
        given = tuple(values)
        self.values = tuple(value for value in given if value is not None)
        self.dropped = bool(dropped)
        self.inputs: tuple[tuple[int, ...], ...] | None = None
        if inputs is not None:
            known = [tuple(map(operator.index, each)) for each in inputs]
            if len(known) != len(given):
                raise ValueError(f"inputs must be given for each output: {len(known)} for {len(given)}")
            self.inputs = tuple(each for each, value in zip(known, given, strict=True) if value is not None)
        self.unfinished = tuple(map(operator.index, unfinished))
        if self.unfinished and inputs is None:
            raise ValueError("unfinished must come with inputs, which say which outputs contain the items")

    def __repr__(self) -> str:
        return f"<Outputs: {len(self.values)}>"


class Aggregator(ABC, Generic[T_contra, U_co]):
    """Combines items into batches. Subclass it for batches other than lists of fixed length.

    A pipeline calls it with one item at a time, never from two threads at once. ``accumulate`` should be cheap.

    Attributes:
        clock: Clock of :meth:`deadline`, in seconds. If it has a method ``call_when_moved(callback)``, the pipeline
            registers a callback, which the clock must call when it is advanced manually.
        is_exact: Set it to True to declare that the pipeline can tell which items every output contains: a value that
            is not an :class:`Outputs` contains all items since the previous output and none is held back, and
            ``Outputs`` with several values have ``inputs``. ``build(resumable=True)`` needs it: an item that is held
            back without notice would be lost when a run is resumed.
    """

    clock: Callable[[], float] = time.monotonic  # a builtin: it does not become a method
    is_exact: bool = False

    @abstractmethod
    def accumulate(self, item: T_contra) -> U_co | Outputs[U_co] | None:
        """Add one item and return the complete batch. ``None``: no output yet; ``Outputs``: any number of outputs."""

    def accumulate_rest(self, item: T_contra, done: Container[int]) -> U_co | Outputs[U_co] | None:
        """Same as ``accumulate``, in a resumed run, for an item of which some parts were already consumed.

        Only needed by an aggregator that puts parts of an item into several outputs.

        Args:
            item: The whole item.
            done: Numbers of the parts that must not be emitted again. The parts of an item are numbered from 0, in the
                order of the outputs that contain it.
        """
        raise NotImplementedError(
            f"{type(self).__qualname__} splits items, so it needs accumulate_rest() to resume in the middle of one"
        )

    @abstractmethod
    def flush(self) -> U_co | Outputs[U_co] | None:
        """Return the remainder at the end of the stream or of an epoch, and reset. ``None``: no remainder."""

    def deadline(self) -> float | None:
        """Return when to call ``flush`` if no further item arrives, on the aggregator's clock. ``None``: never.

        Called after each ``accumulate``, on the same thread; each return value replaces the previous one. A deadline in
        the past means before the next item. The batch that ``flush`` then returns is emitted even with ``drop_last``,
        because it is not a remainder. An exception fails the stage.
        """
        return None


class Collate(Aggregator[T, list[T]]):
    """Makes lists of ``n`` items, in order of arrival. The last list may be shorter.

    Args:
        n: Length of the lists.

    Raises:
        ValueError: ``n`` is less than 1.
        TypeError: ``n`` is not an int.

    Attributes:
        num_items: Length of the lists.
    """

    is_exact = True

    def __init__(self, n: int) -> None:
        self.num_items = as_int("n", n)
        if self.num_items < 1:
            raise ValueError(f"n, the number of items in a list, must be >= 1, got {n}")
        self._items: list[T] = []

    def accumulate(self, item: T) -> list[T] | None:
        self._items.append(item)
        return self.flush() if len(self._items) >= self.num_items else None

    def flush(self) -> list[T] | None:
        items, self._items = self._items, []
        return items or None

    def __repr__(self) -> str:
        return f"collate({self.num_items})"


@dataclass(frozen=True, repr=False)
class AggregateConfig(PathStage, Generic[T]):
    """A stage that batches items; made by :func:`Aggregate`.

    Args:
        name: Name of the stage.
        op: Aggregator that makes the batches. All pipelines built from this description share its state.
        drop_last: Whether to drop the remainder at the end of the stream or of an epoch.

    Raises:
        TypeError: ``op`` is not an :class:`Aggregator`.
    """

    name: str
    op: Aggregator[Any, T]
    drop_last: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.op, Aggregator):
            raise TypeError(f"op must be an Aggregator, got an object of type {type(self.op).__qualname__}")

    def _pickled_parts(self) -> Iterator[tuple[str, Any]]:
        yield f"the aggregator of stage {self.name}", self.op

    def __repr__(self) -> str:
        return self.name


def Aggregate(input: int | Aggregator[Any, Any], /, *, drop_last: bool = False) -> AggregateConfig[Any]:
    """Describe a stage that batches items.

    Args:
        input: Length of the lists to make, or an :class:`Aggregator`.
        drop_last: Whether to drop the remainder at the end of the stream or of an epoch.

    Raises:
        TypeError: ``input`` is neither an int nor an aggregator.
        ValueError: The length is less than 1.
    """
    if isinstance(input, Aggregator):
        op = input
    else:
        try:
            op = Collate(as_int("input", input))
        except TypeError:
            raise TypeError(
                f"aggregate takes an int (items per list) or an Aggregator, got an object of type "
                f"{type(input).__qualname__}"
            ) from None
    # Not the repr of a custom aggregator: it may contain items.
    shown = repr(op) if type(op) is Collate else type(op).__name__
    return AggregateConfig(f"aggregate(op={shown}, drop_last={bool(drop_last)})", op, bool(drop_last))


@dataclass(frozen=True, repr=False)
class DisaggregateConfig(PathStage, Generic[T]):
    """A stage that emits the elements of each input iterable one by one; made by :func:`Disaggregate`.

    Args:
        name: Name of the stage.
    """

    name: str

    def __repr__(self) -> str:
        return self.name


def Disaggregate() -> DisaggregateConfig[Any]:
    """Describe a stage that emits the elements of each input iterable one by one."""
    return DisaggregateConfig("disaggregate")
