"""Figures compared with requirements, and tables."""

from statistics import median

from benchmarks._contest.figures import NOTHING, Figure, head, row, short

from ._measure import CaseResult
from ._peers import OURS, REFERENCE

__all__ = ["case_figure", "import_figures", "limit_figure", "markdown", "zlib_figure"]


def case_figure(result: CaseResult) -> Figure:
    """Median cost of the reference over SPDL's; the spread is over the rounds."""
    required, title = result.case.required, f"{result.case.title}: reference / ours"
    ours, reference = result.costs.get(OURS), result.costs.get(REFERENCE)
    if ours is None or reference is None:
        return Figure(title, f">= {required:g}", None, None, "x", passed=False)
    ratio = median(reference.wall_us) / median(ours.wall_us)
    rounds = [theirs / own for theirs, own in zip(reference.wall_us, ours.wall_us, strict=True)]
    return Figure(title, f">= {required:g}", ratio, (min(rounds), max(rounds)), "x", passed=ratio >= required)


def limit_figure(title: str, limit: float, values: list[float] | None) -> Figure:
    """A median time in milliseconds that must not be exceeded."""
    if not values:
        return Figure(title, f"<= {limit:g} ms", None, None, " ms", passed=False)
    measured = median(values)
    return Figure(title, f"<= {limit:g} ms", measured, (min(values), max(values)), " ms", passed=measured <= limit)


def import_figures(limit: float, values: list[float] | None, brought: list[str] | None) -> list[Figure]:
    """Time of the import, and the number of forbidden modules that it imports."""
    time = limit_figure("import spdl.pipeline, fresh process", limit, values)
    if brought is None:
        return [time]
    names = f" (it imports {', '.join(brought)})" if brought else ""
    clean = Figure(
        f"import brings numpy, torch or spdl.io{names}", "0", len(brought), None, " modules", passed=not brought
    )
    return [time, clean]


def zlib_figure(peer: str, required: float, rates: dict[str, list[float]] | None) -> Figure:
    """Throughput of two threads over that of one."""
    title = f"zlib.compress on 1 MB, 2 threads / 1 thread, {peer}"
    if rates is None:
        return Figure(title, f">= {required:g}", None, None, "x", passed=False)
    ratio = median(rates["2"]) / median(rates["1"])
    rounds = [two / one for one, two in zip(rates["1"], rates["2"], strict=True)]
    return Figure(title, f">= {required:g}", ratio, (min(rounds), max(rounds)), "x", passed=ratio >= required)


def markdown(results: list[CaseResult], peers: list[str], others: list[tuple[str, dict[str, list[float]], str]]) -> str:
    """The tables of costs.

    Args:
        results: The cases, in the order in which they are shown.
        peers: The columns.
        others: Additional rows: title, values for each peer, unit.
    """
    lines = []
    if results:
        lines += _costs(results, peers)
    if others:
        lines += ["", *head(["", *peers]), *(_other_row(*other, peers) for other in others)]
    return "\n".join(lines).strip()


def _costs(results: list[CaseResult], peers: list[str]) -> list[str]:
    lines = head(["µs per item, wall (min to max) / CPU", *peers])
    for result in results:
        cells = [result.case.title]
        for peer in peers:
            cost = result.costs.get(peer)
            if cost is None:
                cells.append(NOTHING)
            else:
                wall = f"{short(median(cost.wall_us))} ({short(min(cost.wall_us))} to {short(max(cost.wall_us))})"
                cells.append(f"{wall} / {short(median(cost.cpu_us))}")
        lines.append(row(cells))
    return lines


def _other_row(title: str, values: dict[str, list[float]], unit: str, peers: list[str]) -> str:
    cells = [title]
    for peer in peers:
        numbers = values.get(peer)
        if not numbers:
            cells.append(NOTHING)
        else:
            cells.append(f"{short(median(numbers))} {unit} ({short(min(numbers))} to {short(max(numbers))})")
    return row(cells)
