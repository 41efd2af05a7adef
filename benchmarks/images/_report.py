"""Tables and figures of what was measured."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks._contest.figures import NOTHING, Figure, figures_markdown

from ._cases import HELD_AT_MOST, Case
from ._peers import OURS, Peer

#: The most by which the estimate and the upper bound of the time with the GIL may differ, as a share of a turn.
UNSURE_AT_MOST = 0.1

Turns = Mapping[str, Sequence[Mapping[str, float]]]
Row = dict[str, Any]


def rows_of(case: Case, peers: Sequence[Peer], turns: Turns, num_photos: int) -> list[Row]:
    """One row per peer: milliseconds per photograph, and its time over SPDL's in the same round.

    A peer with a requirement has a row even if it could not be measured. The last row is the fastest peer that reads
    plain files, if the case requires something of it.
    """
    rows = []
    for peer in peers:
        required = case.required.get(peer.name)
        if peer.name in turns:
            rows.append(_row(peer.name, turns[peer.name], turns[OURS], num_photos, required))
    rows += [_not_measured(name, required) for name, required in case.required.items() if name not in turns]
    if case.best is not None:
        rivals = [row for row in rows if any(p.name == row["name"] and p.reads_files and p.name != OURS for p in peers)]
        rivals = [row for row in rivals if row["ratio"] is not None]
        if rivals:
            best = min(rivals, key=lambda row: row["ratio"])
            name = f"fastest that reads files: {best['name']}"
            rows.append(best | {"name": name, "required": case.best, "verdict": _verdict(best["ratio"], case.best)})
        else:
            rows.append(_not_measured("fastest that reads files", case.best))
    return rows


def _row(
    name: str,
    turns: Sequence[Mapping[str, float]],
    ours: Sequence[Mapping[str, float]],
    num_photos: int,
    required: float | None,
) -> Row:
    walls = [turn["wall"] for turn in turns]
    ratios = [wall / turn["wall"] for wall, turn in zip(walls, ours, strict=True)]
    ratio = statistics.median(ratios)
    return {
        "name": name,
        "ms": round(1e3 * statistics.median(walls) / num_photos, 3),
        "cpu_ms": round(1e3 * statistics.median(turn["cpu"] for turn in turns) / num_photos, 3),
        "ratio": round(ratio, 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "ratio_of_fastest": round(min(walls) / min(turn["wall"] for turn in ours), 3),
        "required": required,
        "verdict": _verdict(ratio, required),
    }


def _not_measured(name: str, required: float) -> Row:
    numbers = dict.fromkeys(("ms", "cpu_ms", "ratio", "ratio_min", "ratio_max", "ratio_of_fastest"))
    return {"name": name, **numbers, "required": required, "verdict": "NOT MEASURED"}


def _verdict(ratio: float, required: float | None) -> str:
    return "" if required is None else "PASS" if ratio >= required else "MISS"


def held_figures(held: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Figure]:
    """The share of a turn in which SPDL holds the GIL, for each case in which that was measured.

    The spread is from the smallest estimate to the largest upper bound. Rounds in which the two differ much do not
    count, because the machine was busy.
    """
    figures, limit = [], 100 * HELD_AT_MOST
    for name, rounds in held.items():
        title, required = f"{name}: time with the GIL", f"< {limit:g} % of the time"
        free = [turn for turn in rounds if turn["held_at_most"] - turn["held"] <= UNSURE_AT_MOST * turn["wall"]]
        if not free:
            figures.append(Figure(title, required, None, None, " %", passed=False))
            continue
        shares = [100 * turn["held"] / turn["wall"] for turn in free]
        spread = min(shares), max(100 * turn["held_at_most"] / turn["wall"] for turn in free)
        share = statistics.median(shares)
        figures.append(Figure(title, required, share, spread, " %", passed=share < limit))
    return figures


def page(
    environment: Mapping[str, Any],
    versions: Mapping[str, Mapping[str, str]],
    missing: Mapping[str, str],
    cases: Sequence[Case],
    tables: Mapping[str, Sequence[Row]],
    likeness: Mapping[str, Mapping[str, float]],
    held: Sequence[Figure],
) -> str:
    """All of it in Markdown."""
    parts = []
    for case in cases:
        parts += [f"### `{case.name}`: {case.title}", _table(tables[case.name], likeness[case.name])]
    if held:
        parts.append(figures_markdown(list(held)))
    packages = {f"{package} {number}": None for each in versions.values() for package, number in each.items()}
    left_out = f" Without {', '.join(missing)}." if missing else ""
    parts.append(
        f"{environment['python']}, {environment['cpu']}, {environment['cores']} cores, {environment['os']},"
        f" {environment['date'][:10]}, revision {environment['revision']}; {', '.join(packages)}.{left_out}"
        f" `{environment['command']}`"
    )
    return "\n\n".join(parts)


def _table(rows: Sequence[Row], likeness: Mapping[str, float]) -> str:
    lines = [
        "| contestant | ms a photograph | CPU ms | time / ours: median (spread) | of the fastest turns | dB from ours |"
        " required |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        required = "" if row["required"] is None else f">= {row['required']:.3g} {row['verdict']}"
        if row["ratio"] is None:
            cells = [row["name"], *[NOTHING] * 5, required]
        else:
            spread = f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})"
            alike = f"{likeness[row['name']]:.1f}" if row["name"] in likeness else NOTHING
            fastest = f"{row['ratio_of_fastest']:.2f}"
            cells = [row["name"], f"{row['ms']:.3f}", f"{row['cpu_ms']:.3f}", spread, fastest, alike, required]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
