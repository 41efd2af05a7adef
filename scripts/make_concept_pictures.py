"""Draw the pictures of docs/concepts.md and docs/architecture.md as SVG: boxes, arrows and words.

Their colours suit light and dark pages.

Usage: python scripts/make_concept_pictures.py [--check]
"""

import argparse
import runpy
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs/pictures"
_STYLE: Final = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; text-anchor: middle; dominant-baseline: central }
.small { font-size: 12px; fill: #59636e }
.left { text-anchor: start }
.box { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.5 }
.store { fill: #fff8c5; stroke: #9a6700; stroke-width: 1.5 }
.process { fill: none; stroke: #818b98; stroke-width: 1.5; stroke-dasharray: 6 4 }
.item { fill: #1a7f37 }
.arrow { fill: none; stroke: #59636e; stroke-width: 1.5; marker-end: url(#head) }
.head { fill: #59636e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .box { fill: #0c2d4d; stroke: #4493f8 }
  .store { fill: #3a2d06; stroke: #d29922 }
  .process { stroke: #656c76 }
  .item { fill: #3fb950 }
  .arrow { stroke: #9198a1 }
  .head { fill: #9198a1 }
}
"""


@dataclass
class Drawing:
    """An SVG of a given size, in pixels, with a title for those who cannot see it."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, w: int, h: int, *words: str, kind: str = "box") -> None:
        """A box with its upper left corner at (x, y), and lines of words in its middle; the first one is larger."""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="6"/>')
        top = y + h / 2 - 9 * (len(words) - 1)
        for number, each in enumerate(words):
            self.words(x + w // 2, int(top + 18 * number), each, small=number > 0)

    def frame(self, x: int, y: int, w: int, h: int, words: str) -> None:
        """A dashed frame: a process."""
        self.parts.append(f'<rect class="process" x="{x}" y="{y}" width="{w}" height="{h}" rx="10"/>')
        self.words(x + 12, y + 16, words, small=True, left=True)

    def words(self, x: int, y: int, text: str, *, small: bool = False, left: bool = False) -> None:
        kinds = ("small " if small else "") + ("left" if left else "")
        self.parts.append(f'<text class="{kinds}" x="{x}" y="{y}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        path = " ".join(f"{'M' if number == 0 else 'L'}{x} {y}" for number, (x, y) in enumerate(points))
        self.parts.append(f'<path class="arrow" d="{path}"/>')

    def items(self, x: int, y: int, number: int) -> None:
        """Items in a row: small squares."""
        self.parts += [
            f'<rect class="item" x="{x + 16 * k}" y="{y}" width="12" height="12" rx="2"/>' for k in range(number)
        ]

    def svg(self) -> str:
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
                f' height="{self.height}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{_STYLE}</style>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
                ' orient="auto-start-reverse"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
                *self.parts,
                "</svg>\n",
            ]
        )


def life_of_an_item() -> Drawing:
    """From the source to the consumer, with who moves it."""
    d = Drawing(760, 210, "The life of an item: source, buffer, call, buffer, batch, sink, consumer")
    for x, words in (
        (10, ("source", "a thread")),
        (210, ("pipe(decode)", "2 calls at once")),
        (410, ("aggregate(4)",)),
    ):
        d.box(x, 60, 120, 70, *words)
    d.box(610, 60, 140, 70, "your loop", "for batch in …")
    for x, number in ((148, 2), (348, 1)):
        d.box(x, 78, 44, 34, kind="store")
        d.items(x + 8, 89, number)
    d.box(548, 78, 44, 34, kind="store")
    d.items(556, 89, 2)
    for start, end in ((130, 148), (192, 210), (330, 348), (392, 410), (530, 548), (592, 610)):
        d.arrow((start, 95), (end, 95))
    d.words(170, 66, "2 may wait", small=True)
    d.words(370, 66, "2 may wait", small=True)
    d.words(570, 66, "the sink", small=True)
    d.arrow((670, 140), (670, 165), (70, 165), (70, 140))
    d.words(
        380, 182, "no room: the stage before waits. So a slow loop slows everything, and memory stays small", small=True
    )
    d.words(270, 30, "worker threads, shared by all stages: the call nearest to the sink goes first", small=True)
    return d


def threads_and_processes() -> Drawing:
    """What is copied by worker processes, and what threads share."""
    d = Drawing(760, 330, "Threads share the dataset and the batch; worker processes copy both")
    d.frame(10, 10, 360, 310, "threads: one process")
    d.box(40, 50, 300, 44, "the dataset, once", kind="store")
    for k in range(3):
        d.box(40 + 104 * k, 140, 92, 44, f"thread {k + 1}")
        d.arrow((86 + 104 * k, 94), (86 + 104 * k, 140))
        d.arrow((86 + 104 * k, 184), (86 + 104 * k, 230))
    d.box(40, 230, 300, 44, "the batch: each writes its slots", kind="store")
    d.words(190, 298, "nothing is sent", small=True)
    for k in range(3):
        x = 400 + 120 * k
        d.frame(x, 10, 110, 190, f"worker {k + 1}")
        d.box(x + 10, 50, 90, 44, "a copy", kind="store")
        d.box(x + 10, 140, 90, 44, "loads")
        d.arrow((x + 55, 94), (x + 55, 140))
        d.arrow((x + 55, 184), (x + 55, 254))
        d.words(x + 58, 218, "pickled", small=True, left=True)
    d.frame(400, 234, 350, 86, "")
    d.words(575, 312, "the training process", small=True)
    d.box(430, 254, 290, 44, "the batch, received", kind="store")
    return d


def bytes_of_a_batch() -> Drawing:
    """Where pixels are written, and who only looks at them."""
    d = Drawing(760, 190, "The bytes of a batch are written once, by the decoder")
    d.box(10, 20, 130, 50, "JPEG files", "compressed")
    d.box(10, 110, 130, 50, "JPEG files", "compressed")
    d.box(190, 20, 170, 50, "decode, crop, resize", "thread 1, no GIL")
    d.box(190, 110, 170, 50, "decode, crop, resize", "thread 2, no GIL")
    d.box(420, 50, 150, 80, "the batch", "written once", kind="store")
    d.arrow((140, 45), (190, 45))
    d.arrow((140, 135), (190, 135))
    d.arrow((360, 45), (420, 75))
    d.arrow((360, 135), (420, 105))
    for y, words in ((20, "NumPy"), (75, "torch"), (130, "JAX")):
        d.box(640, y, 110, 36, words)
        d.arrow((640, y + 18), (570, 90))
    d.words(560, 160, "look at it, without a copy", small=True)
    return d


def states() -> Drawing:
    """The states of a pipeline."""
    d = Drawing(760, 190, "The states of a pipeline: built, running, ended, stopped")
    for x, words in (
        (10, ("built", "nothing runs")),
        (230, ("running", "reads give items")),
        (450, ("ended", "read what is left")),
        (640, ("stopped", "no threads")),
    ):
        d.box(x, 60, 110 if x == 640 else 130, 56, *words)
    d.arrow((140, 88), (230, 88))
    d.words(185, 74, "first read", small=True)
    d.arrow((360, 88), (450, 88))
    d.words(405, 28, "the source is exhausted,", small=True)
    d.words(405, 44, "or a stage has failed", small=True)
    d.arrow((580, 88), (640, 88))
    d.words(610, 74, "stop", small=True)
    d.arrow((295, 116), (295, 150), (695, 150), (695, 116))
    d.words(495, 166, "stop(), the end of auto_stop, Ctrl-C, or collected: calls that run are waited for", small=True)
    return d


#: Packages by what they are for, top to bottom as they are drawn; those that all may import are drawn as one.
_ROWS: Final = (
    (
        ("ray", "regions on Ray"),
        ("debug", "stack reports"),
        ("metrics", "exporters"),
        ("_cli", "load, top, doctor"),
        ("dataloader", "familiar loaders"),
    ),
    (("pipeline", "the engine"), ("io", "images, video, sound; above native/"), ("source", "samplers, shards, tables")),
    (
        ("_processes", "children and transport"),
        ("_monitor", "the socket of spdl top"),
        ("resume", "states"),
        ("remote", "object stores"),
    ),
)
_KERNEL: Final = (
    "_errors",
    "_reports",
    "_failure_log",
    "_numbers",
    "_names",
    "_cpus",
    "_addresses",
    "_extensions",
    "_random",
)


def architecture() -> Drawing:
    """The packages, and which imports which: read from the imports of the tree."""
    imports: dict[str, set[str]] = {}
    for module, imported in runpy.run_path(str(ROOT / "scripts/measure_tree.py"))["imports"](ROOT).items():
        user = module.split(".")[1] if "." in module else ""
        imports.setdefault(user, set()).update(name.split(".")[1] for name in imported if "." in name)
    d = Drawing(860, 424, "The packages of spdl: an arrow leads from one that imports to what it imports")
    height, gap = 54, 56
    places: dict[str, tuple[int, int, int]] = {}
    for row, packages in enumerate(_ROWS):
        width = min(260, (820 - 20 * (len(packages) - 1)) // len(packages))
        left = 20 + (820 - len(packages) * width - 20 * (len(packages) - 1)) // 2
        for column, (name, words) in enumerate(packages):
            x, y = left + column * (width + 20), 20 + row * (height + gap)
            places[name] = x, y, width
            d.box(x, y, width, height, f"spdl.{name}", words)
    for user, (x, y, width) in places.items():
        for used in sorted(imports[user] & places.keys() - {user}):
            to_x, to_y, to_width = places[used]
            between = [other for other in imports[user] & places.keys() - {user, used} if used in imports[other]]
            if any(y <= places[other][1] < to_y or y < places[other][1] <= to_y for other in between):
                continue  # it is reached that way too
            start, end = x + width // 2, to_x + to_width // 2
            if to_y == y:
                left_to_right = to_x > x
                d.arrow(
                    (x + width * left_to_right, y + height // 2),
                    (to_x + to_width * (not left_to_right), y + height // 2),
                )
            elif to_y < y:  # on use
                d.arrow((start - 30, y), (end + 60, to_y + height))
            else:
                d.arrow((start, y + height), (end, to_y))
    top = 20 + len(_ROWS) * (height + gap)
    d.box(
        20,
        top,
        820,
        height,
        ", ".join(_KERNEL),
        "what all may import: errors, reports, numbers, names, seeds",
        kind="store",
    )
    missing = {name for name in imports if name not in (*places, *_KERNEL, "", "__main__")}
    assert not missing, f"draw {missing} in a row"
    return d


DRAWINGS: Final[dict[str, Callable[[], Drawing]]] = {
    "life-of-an-item": life_of_an_item,
    "threads-and-processes": threads_and_processes,
    "bytes-of-a-batch": bytes_of_a_batch,
    "states": states,
    "architecture": architecture,
}


def main(arguments: Iterable[str]) -> int:
    """Write the pictures, or compare them with those in the tree."""
    parser = argparse.ArgumentParser(description="Draw the pictures of docs/concepts.md and docs/architecture.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a picture is out of date")
    check = parser.parse_args(list(arguments)).check
    stale = []
    for name, draw in DRAWINGS.items():
        path, text = FOLDER / f"{name}.svg", draw().svg()
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    if stale:
        print(f"out of date, run scripts/make_concept_pictures.py: {', '.join(stale)}", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
