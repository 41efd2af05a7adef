"""The picture of docs/guides/scaling.md: what the model says for more cores than the machine of the result has."""

from typing import Final

from benchmarks._contest.log_plot import LogPlot
from benchmarks._page.stored import read

from ._cases import GIL, costs_of
from ._model import Costs

__all__ = ["draw", "picture"]

_MOST_CORES: Final = 192
_TICKS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 192)
_NAMES: Final = {
    "items": "three no-op stages",
    "batches-128": "128 photographs a call",
    "batches": "32 photographs a call",
    "images": "a photograph a call",
}
# Of the palette of Okabe and Ito (2008), which people with any colour vision can tell apart.
_COLOURS: Final = {"items": "#d55e00", "batches-128": "#cc79a7", "batches": "#009e73", "images": "#56b4e9"}
_STYLE: Final = """.free { stroke-dasharray: 6 4 }
"""


def draw(costs: dict[str, Costs]) -> str:
    """Lines of items a second by number of cores, both logarithmic: with the GIL, and dashed without it."""
    rates = [
        each.rate(cores, has_gil=has_gil) for each in costs.values() for cores in _TICKS for has_gil in (True, False)
    ]
    title = "Items a second by cores: what the model says (dashed: without the GIL)"
    plot = LogPlot(title, axis="cores", numbers=_TICKS, rates=rates, left=70, right=190, style=_STYLE)
    for name, each in costs.items():
        for has_gil, kind in ((True, "gil"), (False, "free")):
            bend = min(max(1.0, each.cores(has_gil=has_gil)), float(_MOST_CORES))
            first, last = each.rate(1, has_gil=has_gil), each.rate(_MOST_CORES, has_gil=has_gil)
            points = [(1, first), (bend, 1e6 * bend / each.cpu if bend > 1 else first), (_MOST_CORES, last)]
            plot.line(points, _COLOURS[name], kind)
        plot.name(_NAMES[name], each.rate(_MOST_CORES))
    return plot.image()


def picture() -> str:
    """Of the stored results."""
    result = read("scaling").all_cases()
    found = {name: costs_of(result, name, GIL) for name in _NAMES}
    return draw({name: costs for name, costs in found.items() if costs is not None})
