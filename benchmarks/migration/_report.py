"""Tables in Markdown, for the terminal and for the guide."""

from statistics import median

from benchmarks._contest.figures import NOTHING, figures_markdown, head, row, short
from benchmarks._contest.page import origin

from ._cells import AUTO_DATASETS, BATCHES, LAST, LOADERS, MEMORY_BATCHES, MODES, TORCH, WORKERS, Cell
from ._figures import figures_of
from ._result import PEAKS, Result, by_workers

_TITLES = {loader.name: loader.title for loader in LOADERS}
#: The batch size of tables that show one size only.
USUAL_BATCH = 64


def tables(result: Result) -> list[str]:
    """All tables, with their headings."""
    parts = []
    for batch in (0, *BATCHES):
        if any(cell.batch == batch for cell in result.cells):
            title = f"batches of {batch}" if batch else "no batches"
            parts += [f"### Throughput in images/s, {title}", table(result, "rate", by_workers(batch))]
            if batch:
                parts += [f"### Seconds to the first batch, {title}", table(result, "first", by_workers(batch))]
                parts += [f"### CPU seconds for 1000 images, {title}", table(result, "cpu", by_workers(batch))]
            if batch in MEMORY_BATCHES:
                parts += [f"### Memory of the process tree in MB, {title}", table(result, "memory", by_workers(batch))]
                parts += [
                    f"### The same without batches that nobody maps, {title}",
                    table(result, "pss", by_workers(batch)),
                ]
    if any(result.epochs(dataset, mode) for dataset in AUTO_DATASETS for mode in MODES):
        parts += ["### Seconds of an epoch, start included", auto_table(result)]
    return parts


def guide_parts(result: Result) -> dict[str, str]:
    """The generated parts of docs/migration.md, by name."""
    one_size = by_workers(USUAL_BATCH)
    return {
        "figures": "\n\n".join([figures_markdown(figures_of(result)), origin(result.stored)]),
        "samples": _with_caption("Samples/s, no batches", table(result, "rate", by_workers(0))),
        "throughput": _with_caption(f"Images/s, batches of {USUAL_BATCH}", table(result, "rate", one_size)),
        "first": _with_caption("Seconds to the first batch, batches of 256", table(result, "first", by_workers(256))),
        "soonest": soonest_sentence(result),
        "cpu": _with_caption(f"CPU seconds for 1000 images, batches of {USUAL_BATCH}", table(result, "cpu", one_size)),
        "memory": _with_caption(
            "Peak of the memory of the process tree in MB, batches of 256",
            f"{table(result, 'memory', by_workers(256))}\n\n{pss_sentence(result)}",
        ),
        "auto": auto_table(result),
    }


def table(result: Result, measure: str, cells: list[Cell]) -> str:
    """Peers by number of workers: medians, with minimum and maximum in parentheses."""
    lines = head(["workers or threads", *(str(cell.workers) for cell in cells)])
    for name in result.peers:
        if all(result.value(measure, cell, name) is None for cell in cells):
            continue
        lines.append(row([_TITLES[name], *(_shown(result, measure, cell, name) for cell in cells)]))
    return "\n".join(lines)


def auto_table(result: Result) -> str:
    """Datasets by kinds of workers, with the reason for the choice in the last round."""
    lines = head(["seconds of an epoch", *(f'`workers="{mode}"`' for mode in MODES)])
    said = []
    for dataset in AUTO_DATASETS:
        cells = []
        for mode in MODES:
            values = result.epochs(dataset, mode)
            cells.append(f"{short(median(values))} ({_range(values)})" if values else NOTHING)
        lines.append(row([dataset, *cells]))
        said += [f"- {dataset}: {choice}" for choice in result.choices(dataset)[-1:] if choice]
    return "\n".join(lines) + ("\n\nWhat it says:\n\n" + "\n".join(said) if said else "")


def soonest_sentence(result: Result) -> str:
    """Threads are cheap, so this compares SPDL with two of them with torch at its best number of workers."""
    parts = []
    for batch in (BATCHES[0], BATCHES[-1]):
        ours = result.value("first", Cell(batch, 2), LAST)
        theirs = [
            (seconds, workers)
            for workers in WORKERS
            if (seconds := result.value("first", Cell(batch, workers), TORCH)) is not None
        ]
        if ours is not None and theirs:
            seconds, workers = min(theirs)
            parts.append(
                f"the first batch of {batch} comes after {short(1e3 * ours)} ms with two threads; from torch, at the"
                f" best with {workers} worker{'s' if workers > 1 else ''}, after {short(1e3 * seconds)} ms:"
                f" {short(seconds / ours)} times that"
            )
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence else NOTHING


def pss_sentence(result: Result) -> str:
    """The result by proportional set size alone, which does not count torch's batches that wait to be taken."""
    ratios = []
    for workers in WORKERS:
        pairs = [
            (result.value("pss", Cell(batch, workers), LAST), result.value("pss", Cell(batch, workers), TORCH))
            for batch in MEMORY_BATCHES
        ]
        known = [ours / theirs for ours, theirs in pairs if ours and theirs]
        if known:
            ratios.append(f"{short(max(known))} with {workers}")
    return (
        "By proportional set size alone, without the batches that wait in shared memory which nobody maps, the last"
        f" step's memory over torch's is, with the worse size of batches and so many workers: {', '.join(ratios)}."
        if ratios
        else NOTHING
    )


def _shown(result: Result, measure: str, cell: Cell, name: str) -> str:
    value = result.value(measure, cell, name)
    if value is None:
        return NOTHING
    if measure in PEAKS:
        return short(value / 1e6)
    return f"{short(value)} ({_range(result.values(measure, cell, name))})"


def _range(values: list[float]) -> str:
    return f"{short(min(values))} to {short(max(values))}"


def _with_caption(caption: str, content: str) -> str:
    return f"{caption}:\n\n{content}"
