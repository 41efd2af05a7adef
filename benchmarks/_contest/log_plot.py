"""``LogPlot``: lines of a rate over a number of cores or workers, both logarithmic, as an SVG image."""

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

__all__ = ["LogPlot"]

_WIDTH: Final = 720
_HEIGHT: Final = 400
_TOP: Final = 40
_BOTTOM: Final = 50
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.grid { stroke: #afb8c1; stroke-width: 0.5 }
path { fill: none; stroke-width: 2 }
"""
_DARK: Final = """@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #656c76 } }
"""


class LogPlot:
    """The frame of the image; ``line`` adds to it.

    Args:
        title: What stands above it.
        axis: What the numbers count.
        numbers: Marks of the horizontal axis, from 1 up.
        rates: All that is drawn, or at least the lowest and the highest.
        left: Pixels for the numbers of the vertical axis.
        right: Pixels for the names of the lines.
        style: Further rules of CSS.
    """

    def __init__(
        self,
        title: str,
        *,
        axis: str,
        numbers: Sequence[int],
        rates: Iterable[float],
        left: int,
        right: int,
        style: str = "",
    ) -> None:
        values = [*rates]
        self._last, self._left, self._right = numbers[-1], left, right
        self._low, self._high = floor(log10(min(values))), ceil(log10(max(values)))
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
            f' height="{_HEIGHT}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}{style}{_DARK}</style>",
            f'<text class="title" x="10" y="20">{escape(title)}</text>',
        ]
        for number in numbers:
            x, bottom = self._place(number, 10**self._low)
            self._parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom:.1f}"/>')
            self._parts.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{number}</text>')
        for power in range(self._low, self._high + 1):
            x, y = self._place(1, 10**power)
            self._parts.append(f'<line class="grid" x1="{x}" y1="{y:.1f}" x2="{_WIDTH - right}" y2="{y:.1f}"/>')
            self._parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,}</text>')
        self._parts.append(f'<text x="{left}" y="{_HEIGHT - 10}">{escape(axis)}</text>')

    def _place(self, number: float, rate: float) -> tuple[float, float]:
        x = self._left + (_WIDTH - self._left - self._right) * log10(number) / log10(self._last)
        share = (log10(rate) - self._low) / (self._high - self._low)
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    def line(self, points: Iterable[tuple[float, float]], colour: str, kind: str | None = None) -> None:
        """Draw a line through numbers and rates. ``kind``: its class in CSS."""
        way = " L".join(f"{x:.1f},{y:.1f}" for x, y in (self._place(*point) for point in points))
        said = "" if kind is None else f'class="{kind}" '
        self._parts.append(f'<path {said}stroke="{colour}" d="M{way}"/>')

    def name(self, text: str, rate: float) -> None:
        """Write the name of a line that ends at this rate."""
        x, y = self._place(self._last, rate)
        self._parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(text)}</text>')

    def image(self) -> str:
        """The text of the image."""
        return "\n".join([*self._parts, "</svg>", ""])
