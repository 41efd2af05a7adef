"""``Rate``: how many of the newest calls of a stage may fail."""

from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational

from spdl._numbers import as_finite, as_int


@dataclass(frozen=True, slots=True, repr=False)
class Rate:
    """A failure limit over a window: the share of the newest ``per`` calls of a stage that may fail.

    A share of all calls, such as ``Fraction(1, 100)``, hardly changes when a source goes bad after a million good
    items. A rate does: ``Rate(1/100, per=1000)`` stops the stage when more than 10 of its newest 1000 calls have
    failed, at any point of the run. In ``build(max_failures=...)`` each stage has its own window.

    .. code-block:: python

        builder.build(max_failures=Rate(1 / 100, per=1000))

    Args:
        share: Share of the calls in the window that may fail, in (0, 1]. With 1, the stage never stops.
        per: Number of calls in the window, >= 1.

    Raises:
        ValueError: ``share`` or ``per`` is out of range.
        TypeError: ``share`` is not a number, or ``per`` is not an int.
    """

    share: float | Fraction
    per: int = 1000

    def __post_init__(self) -> None:
        share = self.share if isinstance(self.share, Rational) else as_finite("share", self.share)
        if isinstance(self.share, bool) or not 0 < share <= 1:
            raise ValueError(f"share of a Rate must be in range (0, 1], got {self.share!r}")
        if (per := as_int("per", self.per)) < 1:
            raise ValueError(f"per of a Rate must be >= 1, got {per}")
        object.__setattr__(self, "per", per)

    @property
    def most(self) -> int:
        """How many calls in a window may fail."""
        # Floats such as 1/100 are not exact: without the 1e-9, the result could be one too low.
        return int(self.share * self.per + 1e-9)

    def __repr__(self) -> str:
        return f"Rate({self.share}, per={self.per})"

    def __str__(self) -> str:
        return f"{float(self.share):.2%} of the newest {self.per} calls"


#: A number of failures, the share of all calls that may fail, or the share of the newest calls that may fail.
MaxFailures = int | Fraction | Rate
