"""What the batching aggregators share: their arguments, an incomplete batch, and what they count."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

from spdl._numbers import as_float, as_int, int_or_none
from spdl.pipeline.defs import Aggregator

T = TypeVar("T")
U = TypeVar("U")
#: Policy for an item that fits into no batch.
Misfit: TypeAlias = Literal["error", "alone", "drop"]

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 4


def short_repr(item: Any) -> str:
    try:
        return _SHORT.repr(item)
    except Exception:  # noqa: BLE001 - the repr is the user's
        return f"<{type(item).__name__} object, its repr failed>"


def as_amount(name: str, value: Any) -> float:
    """Return ``value`` as an ``int`` or a ``float``, >= 0. Accepts other number types (NumPy's), but not ``bool``."""
    amount: float = value if type(value) in (int, float) else _as_number(name, value)
    if not amount >= 0:
        raise ValueError(f"{name} must be >= 0, got {value}")
    return amount


def _as_number(name: str, value: Any) -> float:
    number = int_or_none(value)  # an integer stays one: costs are added exactly
    try:
        return as_float(name, value) if number is None else number
    except TypeError:
        raise TypeError(
            f"{name} must be a number, got {short_repr(value)} of type {type(value).__qualname__}"
        ) from None


def measure(what: str, function: Callable[[Any], Any], item: Any) -> float:
    """Call ``function`` on ``item`` and check the result; an error names the item."""
    amount = function(item)
    if type(amount) is int and amount >= 0:  # fast path for the common case
        return amount
    return as_amount(f"the {what} of item {short_repr(item)}", amount)


def as_limit(name: str, value: Any) -> float:
    """Return ``value`` as a number > 0; infinity is accepted."""
    limit = as_amount(name, value)
    if limit == 0:
        raise ValueError(f"{name} must be > 0, got {value}")
    return limit


def as_num_items(name: str, value: Any) -> float:
    """Return ``value`` as a number of items >= 1; ``None`` (no limit) becomes infinity."""
    return math.inf if value is None else as_int(name, value, 1)


class OpenBatch:
    """An incomplete batch. Its cost is the sum of the items' costs or, if padded, the largest times their number."""

    __slots__ = ("items", "largest", "max_cost", "max_items", "numbers", "padded", "total")

    def __init__(self, max_items: float, max_cost: float, *, padded: bool) -> None:
        self.max_items = max_items
        self.max_cost = max_cost
        self.padded = padded
        self.clear()

    def clear(self) -> None:
        self.items: list[Any] = []
        self.numbers: list[int] = []
        self.total: float = 0
        self.largest: float = 0

    def has_room_for(self, cost: float) -> bool:
        if self.padded:
            return max(self.largest, cost) * (len(self.items) + 1) <= self.max_cost
        return self.total + cost <= self.max_cost

    def add(self, item: Any, number: int, cost: float) -> None:
        self.items.append(item)
        self.numbers.append(number)
        self.total += cost
        if cost > self.largest:
            self.largest = cost

    @property
    def is_full(self) -> bool:
        """Whether no further item fits, whatever its cost. Without padding, items of cost 0 always fit the budget."""
        if len(self.items) >= self.max_items:
            return True
        return self.padded and self.largest * (len(self.items) + 1) > self.max_cost

    @property
    def padding(self) -> float:
        """Cost that padding adds to the sum."""
        return self.largest * len(self.items) - self.total if self.padded else 0


class CountingAggregator(Aggregator[T, U]):
    """An aggregator that counts the batches it has emitted. The counters can be read at any time, from any thread."""

    is_exact = True
    _num_given = 0  # items accumulated so far; a subclass numbers its items with it

    def __init__(self) -> None:
        self.num_batches = 0  #: emitted
        self.num_items = 0  #: in them
        self.num_tokens: float = 0  #: sum of their costs or lengths
        self.num_padding: float = 0  #: added to the longest item of each batch, or to the length of the row
        self.num_dropped = 0  #: items dropped on purpose

    @property
    def fill_rate(self) -> float:
        """``num_tokens / (num_tokens + num_padding)``. 1.0 means no padding; it is also the value before any batch."""
        whole = self.num_tokens + self.num_padding
        return self.num_tokens / whole if whole else 1.0

    def ages(self, numbers: list[int]) -> list[int]:
        """Convert item numbers to ages, as ``Outputs.inputs`` takes them."""
        last = self._num_given - 1
        return [last - number for number in numbers]

    def count(self, num_items: int, num_tokens: float, num_padding: float) -> None:
        self.num_batches += 1
        self.num_items += num_items
        self.num_tokens += num_tokens
        self.num_padding += num_padding
