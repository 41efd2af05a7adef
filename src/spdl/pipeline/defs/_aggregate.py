"""Stages that put items together and take them apart."""

import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from spdl.pipeline._numbers import as_int

__all__ = ["Aggregate", "AggregateConfig", "Aggregator", "Collate", "Disaggregate", "DisaggregateConfig", "Outputs"]

T = TypeVar("T")
U = TypeVar("U")


@final
class Outputs(Generic[U]):
    """Several outputs of one call of an :class:`Aggregator`, emitted in order, each an item of its own.

    Args:
        values: The outputs; read to its end at once. None at all is fine, and ``None`` among them is no output.
        dropped: The item just given is left out on purpose and will be in no output; the statistics count it.
        inputs: For each output, which items are in it: 0 is the item given last, 1 the one before, and so on. The
            pipeline then knows exactly which source positions an output comes from, and which still wait in the
            aggregator. ``None``: all items given since the output before are in these.

    Attributes:
        values: The outputs, as a tuple.
        dropped: As given.
        inputs: As tuples, or ``None``.

    Raises:
        ValueError: There are not as many ``inputs`` as ``values``.
        TypeError: ``inputs`` holds something else than ints.
    """

    __slots__ = ("dropped", "inputs", "values")

    def __init__(
        self,
        values: Iterable[U] = (),
        *,
        dropped: bool = False,
        inputs: Iterable[Iterable[int]] | None = None,
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

    def __repr__(self) -> str:
        return f"<Outputs: {len(self.values)}>"


class Aggregator(ABC, Generic[T, U]):
    """Puts items together. Subclass it for what lists of a fixed length do not do.

    A pipeline calls it for one item at a time, never from two threads at once. ``accumulate`` should be cheap.

    Attributes:
        clock: What :meth:`deadline` is read by, seconds. If it has a method ``call_when_moved(callback)``, the
            pipeline has itself told when this clock was moved by hand.
    """

    clock: Callable[[], float] = time.monotonic  # a builtin: it does not become a method

    @abstractmethod
    def accumulate(self, item: T) -> U | Outputs[U] | None:
        """Take one item in, and return what is complete. ``None``: nothing yet; ``Outputs``: any number."""

    @abstractmethod
    def flush(self) -> U | Outputs[U] | None:
        """Return what is left at the end of the stream or of an epoch, and start anew. ``None``: nothing."""

    def deadline(self) -> float | None:
        """When to call ``flush`` if no item comes before, on the aggregator's clock. ``None``: never.

        Asked for after each ``accumulate``, by the same thread; the answer replaces the one before. A time that has
        passed by then is now: before the next item. What ``flush`` then returns is emitted, with ``drop_last`` too:
        nothing has ended. An exception fails the stage.
        """
        return None


class Collate(Aggregator[T, list[T]]):
    """Lists of ``n`` items, in order of arrival. The last one may be shorter.

    Args:
        n: Length of the lists.

    Raises:
        ValueError: ``n`` is less than 1.
        TypeError: ``n`` is not an int.

    Attributes:
        num_items: Length of the lists.
    """

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
class AggregateConfig(Generic[T]):
    """A stage that puts items together; made by :func:`Aggregate`.

    Args:
        name: Name of the stage.
        op: What puts them together. It belongs to this description: pipelines built from it share its state.
        drop_last: Discard what is incomplete at the end of the stream or of an epoch.

    Raises:
        TypeError: ``op`` is not an :class:`Aggregator`.
    """

    name: str
    op: Aggregator[Any, T]
    drop_last: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.op, Aggregator):
            raise TypeError(f"op must be an Aggregator, got an object of type {type(self.op).__qualname__}")

    def __repr__(self) -> str:
        return self.name


def Aggregate(
    input: int | Aggregator[Any, Any],
    /,
    *,
    drop_last: bool = False,
) -> AggregateConfig[Any]:
    """Describe a stage that puts items together.

    Args:
        input: Length of the lists to make, or an :class:`Aggregator`.
        drop_last: Discard what is incomplete at the end of the stream or of an epoch.

    Raises:
        TypeError: ``input`` is neither.
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
    # An aggregator's own repr may show what it holds.
    shown = repr(op) if type(op) is Collate else type(op).__name__
    return AggregateConfig(f"aggregate(op={shown}, drop_last={bool(drop_last)})", op, bool(drop_last))


@dataclass(frozen=True, repr=False)
class DisaggregateConfig(Generic[T]):
    """A stage that emits the items of each incoming iterable one by one; made by :func:`Disaggregate`.

    Args:
        name: Name of the stage.
    """

    name: str

    def __repr__(self) -> str:
        return self.name


def Disaggregate() -> DisaggregateConfig[Any]:
    """Describe a stage that emits the items of each incoming iterable one by one."""
    return DisaggregateConfig("disaggregate")
