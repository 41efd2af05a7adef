"""Tables and figures of the measurements."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks._contest.figures import NOTHING, Figure, figures_markdown, head, row, short

from ._cases import Case, Passes
from ._measure import METHODS
from ._peers import OURS

Starts = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]

#: The limit as a multiple of the reference's time with the same start method; and the speed-up of the second start.
START_AT_MOST, SECOND_AT_LEAST = 1.2, 2.0


def rows_of(case: Case, passes: Passes) -> list[dict[str, Any]]:
    """One row per peer: the cost of an item, and its time over SPDL's in the same round."""
    rows = []
    # Batches that are written where they are read need no fresh memory, so ``fill-reused`` is their lower bound.
    fills = {name: median(each["wall"] for each in passes[name]) for name in ("fill", "fill-reused") if name in passes}
    for name, taken in passes.items():
        walls = [each["wall"] for each in taken]
        ratios = [slow / fast["wall"] for slow, fast in zip(walls, passes.get(OURS, ()), strict=False)]
        wall = median(walls)
        filling = fills.get("fill-reused" if name == "spdl-born" else "fill")
        rows.append(
            {
                "name": name,
                "items_per_s": 1 / wall,
                "mb_per_s": case.work.num_bytes / wall / 1e6,
                "us": 1e6 * wall,
                "us_min": 1e6 * min(walls),
                "us_max": 1e6 * max(walls),
                "consumer_us": 1e6 * median(each["consumer"] for each in taken),
                "producer_us": 1e6 * median(each["producer"] for each in taken),
                "filling": None if filling is None else filling / wall,
                "ratio": median(ratios) if ratios else None,
                "ratio_min": min(ratios, default=None),
                "ratio_max": max(ratios, default=None),
            }
        )
    return rows


def start_figures(starts: Starts) -> list[Figure]:
    """SPDL over the reference for each method, and the second start over the first if a fork server is kept."""
    figures = []
    for method in METHODS:
        taken = starts.get(method, {})
        ours, theirs = taken.get(OURS, ()), taken.get("reference", ())
        title, required = f"first item by {method}: spdl over reference", f"<= {START_AT_MOST:g}"
        ratios = [a["first"] / b["first"] for a, b in zip(ours, theirs, strict=False)]
        figures.append(_figure(title, required, ratios, lambda ratio: ratio <= START_AT_MOST))
    warm = [each["first"] / each["second"] for each in starts.get("forkserver", {}).get(OURS, ())]
    title = "first item by forkserver: the first over the second"
    figures.append(_figure(title, f">= {SECOND_AT_LEAST:g}", warm, lambda ratio: ratio >= SECOND_AT_LEAST))
    return figures


def _figure(title: str, required: str, ratios: Sequence[float], passes: Any) -> Figure:
    if not ratios:
        return Figure(title, required, None, None, "x", passed=False)
    ratio = median(ratios)
    return Figure(title, required, ratio, (min(ratios), max(ratios)), "x", passed=passes(ratio))


def page(
    environment: Mapping[str, Any],
    versions: Mapping[str, Mapping[str, str]],
    missing: Mapping[str, str],
    tables: Sequence[tuple[Case, Sequence[Mapping[str, Any]]]],
    starts: Starts,
    figures: Sequence[Figure],
) -> str:
    """The report in Markdown."""
    parts = [figures_markdown(list(figures))] if figures else []
    for case, rows in tables:
        parts += [f"### `{case.name}`: {case.title}", _table(rows)]
    if starts:
        parts += ["### `start`: milliseconds to the first item of a pipeline in a subprocess", _start_table(starts)]
    packages = {f"{package} {number}": None for each in versions.values() for package, number in each.items()}
    left_out = f" Without {', '.join(missing)}." if missing else ""
    parts.append(
        f"{environment['python']}, {environment['cpu']}, {environment['cores']} cores, {environment['os']},"
        f" {environment['date'][:10]}, revision {environment['revision']}; {', '.join(packages)}.{left_out}"
        f" `{environment['command']}`"
    )
    return "\n\n".join(parts)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    titles = ["µs an item (min to max)", "items/s", "MB/s", "CPU µs, consumer", "producer", "filling alone"]
    lines = head(["", *titles, "time / ours (min to max)"])
    for each in rows:
        filling = NOTHING if each["filling"] is None else f"{100 * each['filling']:.0f} %"
        ratio = NOTHING
        if each["ratio"] is not None:
            ratio = f"{short(each['ratio'])} ({short(each['ratio_min'])} to {short(each['ratio_max'])})"
        spread = f"{short(each['us'])} ({short(each['us_min'])} to {short(each['us_max'])})"
        numbers = [short(each[key]) for key in ("items_per_s", "mb_per_s", "consumer_us", "producer_us")]
        lines.append(row([each["name"], spread, *numbers, filling, ratio]))
    return "\n".join(lines)


def _start_table(starts: Starts) -> str:
    peers = list(next(iter(starts.values())))
    lines = head(["", *(f"{peer}, {which}" for peer in peers for which in ("first", "second"))])
    for method, taken in starts.items():
        cells = []
        for peer in peers:
            for which in ("first", "second"):
                values = [each[which] for each in taken[peer]]
                cells.append(f"{short(median(values))} ({short(min(values))} to {short(max(values))})")
        lines.append(row([method, *cells]))
    return "\n".join(lines)
