"""Pictures of docs/benchmarks.md: one question each, as bars in SVG, in colours for light and dark pages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from benchmarks._contest.figures import short
from benchmarks.scaling import _plot as scaling

from .stored import read
from .tables import TITLES, cost_of

__all__ = ["PICTURES", "Bar", "bars"]

_WIDTH: Final = 720
_LEFT: Final = 230  # pixels for names
_RIGHT: Final = 110  # and for numbers
_ROW: Final = 30
_TOP: Final = 44
_STYLE: Final = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; dominant-baseline: central }
.name { text-anchor: end }
.title { font-weight: 600 }
.other { fill: #afb8c1 }
.ours { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .other { fill: #656c76 }
  .ours { fill: #3fb950 }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One contestant: its name for readers, its number, and whether it is SPDL."""

    name: str
    value: float
    is_ours: bool


def bars(title: str, rows: list[Bar]) -> str:
    """Horizontal bars from zero, the shortest first; behind each its number, and the ratio to ours."""
    rows = sorted(rows, key=lambda each: each.value)
    longest = max(each.value for each in rows)
    ours = next(each.value for each in rows if each.is_ours)
    height = _TOP + _ROW * len(rows) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        ' role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="10" y="20">{escape(title)}</text>',
    ]
    for number, each in enumerate(rows):
        y = _TOP + _ROW * number
        length = max(2.0, (_WIDTH - _LEFT - _RIGHT) * each.value / longest)
        label = short(each.value) if each.is_ours else f"{short(each.value)} ({short(each.value / ours)}x)"
        parts += [
            f'<text class="name" x="{_LEFT - 10}" y="{y + 11}">{escape(each.name)}</text>',
            f'<rect class="{"ours" if each.is_ours else "other"}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="22"'
            ' rx="3"/>',
            f'<text x="{_LEFT + length + 8:.1f}" y="{y + 11}">{label}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def _picture(benchmark: str, case: str, title: str, *, scale: float = 1.0) -> Callable[[], str]:
    """All contestants that measured one case. ``scale``: from microseconds to the unit of the title."""

    def draw() -> str:
        found = read(benchmark).cases[case]
        rows = []
        for peer, name in TITLES.items():
            cost = cost_of(found, peer)
            if cost is not None:
                rows.append(Bar(name.replace("`", ""), scale * cost, peer == "spdl"))
        return bars(title, rows)

    return draw


#: The files in docs/pictures, without their ending.
PICTURES: Mapping[str, Callable[[], str]] = {
    "benchmark-scaling": scaling.picture,
    "benchmark-engine": _picture("engine", "sync_c4", "One sync stage, concurrency 4: µs an item, less is better"),
    "benchmark-images": _picture(
        "images", "web-train-uint8", "A photograph of 500x375 for training: ms, less is better", scale=1e-3
    ),
    "benchmark-video": _picture("video", "small_full", "H.264, 640x360 to its full size: µs a frame, less is better"),
    "benchmark-transport": _picture(
        "transport", "uint8", "A batch of 4.8 MB from another process: ms, less is better", scale=1e-3
    ),
}
