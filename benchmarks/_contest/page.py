"""The report of a run, in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from .columns import Spread, round_ratios, spread_of
from .contest import Case, Contest
from .contestants import BEFORE
from .figures import NOTHING, Figure, figures_markdown, head, row
from .result import Result

__all__ = ["origin", "page"]


def page(contest: Contest, cases: Sequence[Case], result: Result, figures: Sequence[Figure]) -> str:
    """Figures, tables, and the origin of the numbers."""
    parts = [figures_markdown(list(figures))] if figures else []
    parts += contest.tables(result) if contest.tables is not None else _tables(contest, cases, result)
    if any(name.endswith(BEFORE) for name in result.peers):
        parts += ["### Before over now, of the same round: above 1 it is faster now", _before(cases, result)]
    return "\n\n".join([*parts, origin(result.stored)])


def origin(stored: Mapping[str, Any]) -> str:
    """The machine, the versions and the command."""
    at = stored["environment"]
    packages = {f"{package} {number}": None for peer in stored["peers"].values() for package, number in peer.items()}
    left_out = f" Without {', '.join(stored['missing'])}." if stored["missing"] else ""
    return (
        f"{at['python']}, {at['cpu']}, {at['cores']} cores, {at['os']}, {at['date'][:10]}, revision {at['revision']};"
        f" {', '.join(packages)}.{left_out} `{at['command']}`"
    )


def _tables(contest: Contest, cases: Sequence[Case], result: Result) -> list[str]:
    """One table of all cases that have no columns; then one for each that has."""
    together = [case for case in cases if case.columns is None]
    parts = []
    if together:
        lines = head([f"µs {contest.unit}, {contest.cell.title}", *result.peers])
        for case in together:
            cell = contest.cell if case.cost == "wall_us" else Spread("", case.cost)
            lines.append(row([case.title, *(cell.cell(result, case.name, peer) for peer in result.peers)]))
        parts.append("\n".join(lines))
    for case in cases:
        if case.columns is not None:
            lines = head(["", *(column.title for column in case.columns)])
            for peer in result.peers_of(case.name):
                lines.append(row([peer, *(column.cell(result, case.name, peer) for column in case.columns)]))
            parts += [f"### `{case.name}`: {case.title}", "\n".join(lines)]
    return parts


def _before(cases: Sequence[Case], result: Result) -> str:
    """Cases by peers that have a twin: the ratio of wall time in each round, and that of CPU time."""
    names = [name.removesuffix(BEFORE) for name in result.peers if name.endswith(BEFORE)]
    lines = head(["", *(f"{name}{what}" for name in names for what in ("", ", CPU"))])
    for case in cases:
        cells = []
        for name in names:
            for cost in (case.cost, "cpu_us"):
                then, now = (result.values(case.name, peer, cost) for peer in (name + BEFORE, name))
                cells.append(spread_of(round_ratios(then, now)))
        if any(cell != NOTHING for cell in cells):
            lines.append(row([case.title, *cells]))
    return "\n".join(lines)
