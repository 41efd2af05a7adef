"""Parts of charts as SVG text. Colours come from the classes of ``STYLE``, in a light and a dark version."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

#: Number of colours for the lines of one chart; further lines reuse them from the first.
SERIES = 8
_LIGHT = ("#2563eb", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d", "#4d7c0f")
_DARK = ("#7aa2ff", "#ff9e64", "#73daca", "#c79bff", "#e0af68", "#5ccfe6", "#ff7eb6", "#b5d95c")


def _colours(colours: Sequence[str]) -> str:
    return "".join(f".spdl-svg .s{k}{{stroke:{c}}}.spdl-svg .f{k}{{fill:{c}}}" for k, c in enumerate(colours))


STYLE = (
    ".spdl-svg{font:12px system-ui,sans-serif}.spdl-svg text{fill:#222}.spdl-svg .dim{fill:#667}"
    ".spdl-svg .bold{font-weight:600}.spdl-svg .small{font-size:10px}.spdl-svg .axis{stroke:#aab;stroke-width:1}"
    ".spdl-svg .ideal{stroke:#99a;stroke-dasharray:4 3;fill:none}"
    ".spdl-svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}.spdl-svg .ring{fill:none;stroke-width:2}"
    ".spdl-svg .box{fill:#f4f6fa;stroke:#aab}.spdl-svg .hot{stroke:#c2410c;stroke-width:2}"
    ".spdl-svg .edge{stroke:#889;fill:none;stroke-width:1.5}.spdl-svg .tip{fill:#889}"
    + _colours(_LIGHT)
    + "@media(prefers-color-scheme:dark){.spdl-svg text{fill:#dde}.spdl-svg .dim{fill:#9aa}"
    ".spdl-svg .axis{stroke:#556}.spdl-svg .ideal{stroke:#667}.spdl-svg .box{fill:#232733;stroke:#556}"
    ".spdl-svg .hot{stroke:#ff9e64}" + _colours(_DARK) + "}"
)


def svg(width: float, height: float, parts: Sequence[str], label: str, *, style: str = STYLE) -> str:
    """Return an image that scales down with the page."""
    return (
        '<svg class="spdl-svg" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'style="max-width:100%" role="img" aria-label="{escape(label)}">'
        + (f"<style>{style}</style>" if style else "")
        + "".join(parts)
        + "</svg>"
    )


def text(x: float, y: float, words: str, *, cls: str = "", anchor: str = "start") -> str:
    of_class = f' class="{cls}"' if cls else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of_class}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{cls}"/>'


def polyline(points: Sequence[tuple[float, float]], cls: str) -> str:
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" class="{cls}"/>'


def circle(x: float, y: float, radius: float, cls: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{cls}"/>'


def rect(x: float, y: float, width: float, height: float, cls: str, *, title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" class="{cls}">{inside}</rect>'
    )


def nice_limit(largest: float) -> float:
    """Return the end of an axis: 1, 2, 2.5 or 5 times a power of ten, not below ``largest``."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** int(f"{largest:e}".partition("e")[2])
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= largest * (1 - 1e-9))
