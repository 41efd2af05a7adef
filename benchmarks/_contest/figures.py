"""Requirements compared with measurements, and tables in Markdown."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["NOTHING", "Figure", "figures_markdown", "head", "row", "short"]

#: Cells of cases that a peer cannot do, or that were not measured.
NOTHING = "—"


@dataclass(frozen=True, slots=True)
class Figure:
    """One requirement and its measurement.

    Attributes:
        measured: The measured value; ``None`` if a peer that it needs was not measured.
        spread: The minimum and the maximum of the single values.
    """

    title: str
    required: str
    measured: float | None
    spread: tuple[float, float] | None
    unit: str
    passed: bool

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "NOT MEASURED"
        return "PASS" if self.passed else "MISS"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def figures_markdown(figures: list[Figure]) -> str:
    """Required, measured, verdict."""
    lines = head(["figure", "required", "measured (min to max)", "verdict"])
    for figure in figures:
        measured = NOTHING if figure.measured is None else f"{short(figure.measured)}{figure.unit}"
        if figure.spread is not None:
            measured += f" ({short(figure.spread[0])} to {short(figure.spread[1])})"
        lines.append(row([figure.title, figure.required, measured, figure.verdict]))
    return "\n".join(lines)


def head(cells: list[str]) -> list[str]:
    return [row(cells), row(["---", *["---:"] * (len(cells) - 1)])]


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def short(value: float) -> str:
    """Three significant digits, never in exponent form."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
