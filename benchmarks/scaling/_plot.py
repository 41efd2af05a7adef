"""The picture of docs/guides/scaling.md: what the model says for more cores than the machine of the result has."""

from html import escape
from math import log10
from typing import Final

from benchmarks._page.stored import read

from ._cases import GIL, costs_of
from ._model import Costs

__all__ = ["draw", "picture"]

_MOST_CORES: Final = 192
_TICKS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 192)
_WIDTH: Final = 720
_HEIGHT: Final = 400
_LEFT: Final = 70
_RIGHT: Final = 190  # pixels for the names of the lines
_TOP: Final = 40
_BOTTOM: Final = 50
_NAMES: Final = {
    "items": "three no-op stages",
    "batches-128": "128 photographs a call",
    "batches": "32 photographs a call",
    "images": "a photograph a call",
}
# Of the palette of Okabe and Ito (2008), which people with any colour vision can tell apart.
_COLOURS: Final = {"items": "#d55e00", "batches-128": "#cc79a7", "batches": "#009e73", "images": "#56b4e9"}
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.grid { stroke: #afb8c1; stroke-width: 0.5 }
path { fill: none; stroke-width: 2 }
.free { stroke-dasharray: 6 4 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #656c76 } }
"""


def draw(costs: dict[str, Costs]) -> str:
    """Lines of items a second by number of cores, both logarithmic: with the GIL, and dashed without it."""
    rates = [
        each.rate(cores, has_gil=has_gil) for each in costs.values() for cores in _TICKS for has_gil in (True, False)
    ]
    low, high = int(log10(min(rates))), -int(-log10(max(rates)) // 1)

    def place(cores: float, rate: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * log10(cores) / log10(_MOST_CORES)
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (log10(rate) - low) / (high - low)

    title = "Items a second by cores: what the model says (dashed: without the GIL)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
        f' height="{_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="10" y="20">{escape(title)}</text>',
    ]
    for cores in _TICKS:
        x, bottom = place(cores, 10**low)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{cores}</text>')
    for power in range(low, high + 1):
        x, y = place(1, 10**power)
        parts.append(f'<line class="grid" x1="{x}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 10}">cores</text>')
    for name, each in costs.items():
        for has_gil, kind in ((True, "gil"), (False, "free")):
            bend = min(max(1.0, each.cores(has_gil=has_gil)), float(_MOST_CORES))
            points = [place(1, each.rate(1, has_gil=has_gil))]
            points.append(place(bend, 1e6 * bend / each.cpu if bend > 1 else each.rate(1, has_gil=has_gil)))
            points.append(place(_MOST_CORES, each.rate(_MOST_CORES, has_gil=has_gil)))
            line = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<path class="{kind}" stroke="{_COLOURS[name]}" d="M{line}"/>')
        x, y = place(_MOST_CORES, each.rate(_MOST_CORES))
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(_NAMES[name])}</text>')
    return "\n".join([*parts, "</svg>", ""])


def picture() -> str:
    """Of the stored results."""
    result = read("scaling").all_cases()
    found = {name: costs_of(result, name, GIL) for name in _NAMES}
    return draw({name: costs for name, costs in found.items() if costs is not None})
