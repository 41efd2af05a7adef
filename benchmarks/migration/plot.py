"""Draw the pictures and write the tables of docs/migration.md from a stored result.

    python benchmarks/migration/plot.py benchmarks/migration/results/RESULT.json

``run.py`` does this at the end of a whole run. Needs matplotlib, of the extra ``bench``.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks._contest.environments import REPOSITORY
from benchmarks._page.places import fill
from benchmarks.migration._cells import BATCHES, LAST, LOADERS, MEMORY_BATCHES, TORCH, WORKERS
from benchmarks.migration._report import guide_parts
from benchmarks.migration._result import PEAKS, Result, by_workers, in_todays_format

__all__ = ["draw", "into_guide", "missing"]

GUIDE = REPOSITORY / "docs" / "migration.md"
PICTURES = REPOSITORY / "docs" / "pictures"

# Of the palette of Okabe and Ito (2008), which people with any colour vision can tell apart.
_COLOURS = {TORCH: "#d55e00", "drop-in": "#e69f00", "threads": "#cc79a7", "frames": "#56b4e9", LAST: "#0072b2"}
_MARKERS = {TORCH: "s", "drop-in": "v", "threads": "^", "frames": "D", LAST: "o"}
#: By name of the picture: its measure, its batch sizes, and whether its axis is logarithmic.
_PLOTS = {
    "throughput": ("rate", "images/s", BATCHES, False),
    "first": ("first", "seconds to the first batch", BATCHES, True),
    "cpu": ("cpu", "CPU seconds for 1000 images", BATCHES, False),
    "memory": ("memory", "memory of the process tree, MB", MEMORY_BATCHES, False),
}
_ALT = {
    "throughput": "Images a second by number of workers, for torch's loader and the three steps, four sizes of batches",
    "first": "Seconds until the first batch by number of workers, for the same loaders and sizes of batches",
    "cpu": "CPU seconds for 1000 images by number of workers, for the same loaders and sizes of batches",
    "memory": "Memory of the process and all that it started by number of workers, with batches of 32 and of 256",
}


def missing() -> str | None:
    """A description of what is missing for drawing, and how to get it; ``None`` if nothing is."""
    if importlib.util.find_spec("matplotlib") is None:
        return "drawing needs matplotlib, which is not installed: pip install '.[bench]'"
    return None


def draw(result: Result, folder: Path) -> list[Path]:
    """A picture for each of ``_PLOTS``, as SVG whose text stays text. The same result gives the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "migration", "font.size": 9}
    folder.mkdir(parents=True, exist_ok=True)
    return [_drawn(result, name, folder / f"migration-{name}.svg") for name in _PLOTS]


def _drawn(result: Result, name: str, path: Path) -> Path:
    from matplotlib import pyplot, ticker

    measure, label, batches, is_log = _PLOTS[name]
    figure, panels = pyplot.subplots(1, len(batches), sharey=True, squeeze=False, figsize=(1 + 2.2 * len(batches), 3))
    for panel, batch in zip(panels[0], batches, strict=True):
        _fill(panel, result, measure, batch)
        panel.set_title(f"batches of {batch}")
        panel.set_xscale("log", base=2)
        panel.set_xticks(WORKERS, labels=list(map(str, WORKERS)))
        panel.set_xlabel("workers or threads")
        panel.grid(alpha=0.3)
    axis = panels[0][0].yaxis
    if is_log:
        panels[0][0].set_yscale("log")
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(ticker.NullFormatter())
    else:
        # After drawing: the panels share the axis, and a fixed bound would stop it from growing.
        panels[0][0].set_ylim(bottom=0)
    panels[0][0].set_ylabel(label)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=2, frameon=False, bbox_to_anchor=(0.5, 0))
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return path


def _fill(panel: Any, result: Result, measure: str, batch: int) -> None:
    """Medians with bars from the minimum to the maximum."""
    for peer in LOADERS:
        known = [
            (cell, value) for cell in by_workers(batch) if (value := result.value(measure, cell, peer.name)) is not None
        ]
        if not known:
            continue
        scale = 1e-6 if measure in PEAKS else 1.0
        middle = [value * scale for _, value in known]
        spread = [result.values(measure, cell, peer.name) if measure not in PEAKS else [value] for cell, value in known]
        below = [value - min(values) * scale for value, values in zip(middle, spread, strict=True)]
        above = [max(values) * scale - value for value, values in zip(middle, spread, strict=True)]
        panel.errorbar(
            [cell.workers for cell, _ in known],
            middle,
            yerr=[below, above],
            label=peer.title,
            color=_COLOURS[peer.name],
            marker=_MARKERS[peer.name],
            markersize=4,
            linewidth=1.2,
        )


def into_guide(result: Result, guide: Path = GUIDE, pictures: Path = PICTURES) -> None:
    """Draw the pictures, and put them and the tables into their places in the guide."""
    draw(result, pictures)
    parts = guide_parts(result)
    for name, alt in _ALT.items():
        parts[name] = f"![{alt}](pictures/migration-{name}.svg)\n\n{parts[name]}"
    guide.write_text(fill(guide.read_text(encoding="utf-8"), parts), encoding="utf-8")
    print(f"written to {guide} and {pictures}", file=sys.stderr)


def main(arguments: list[str]) -> int:
    problem = missing()
    if problem is not None or len(arguments) != 1:
        print(problem or __doc__, file=sys.stderr)
        return 2
    into_guide(Result(in_todays_format(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
