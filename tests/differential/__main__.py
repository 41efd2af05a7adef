"""Prints the matrix of forms and laws: how many generated files of each cell were read right."""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.differential.collection import CELLS, try_numbered
from tests.differential.exceptions import EXCEPTIONS


def _chosen(options: argparse.Namespace) -> list[int]:
    wanted = [word.lower() for word in options.only]
    return [i for i, cell in enumerate(CELLS) if not cell.missing and all(word in str(cell).lower() for word in wanted)]


def _entry(counts: Counter[str]) -> str:
    """A cell of the table: files read right; +k files of known exceptions; !b files that are wrong."""
    more = [(counts["known"], "+{}k"), (counts["not made"], "-{}"), (counts["broken"], " !{}")]
    return str(counts["held"]) + "".join(text.format(number) for number, text in more if number)


def _table(chosen: list[int], counts: dict[int, Counter[str]]) -> str:
    cells = [CELLS[i] for i in chosen]
    laws = list(dict.fromkeys(cell.law for cell in cells))
    rows: dict[str, dict[str, str]] = {}
    for index, cell in zip(chosen, cells, strict=True):
        rows.setdefault(f"{cell.kind} {cell.form}", {})[cell.law] = _entry(counts[index])
    lines = ["| form | " + " | ".join(laws) + " |", "| --- |" + " ---: |" * len(laws)]
    lines += ["| " + " | ".join([form, *(row.get(law, "") for law in laws)]) + " |" for form, row in rows.items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("only", nargs="*", help="words; only cells whose names contain all of them are tried")
    parser.add_argument("--files", type=int, default=30, help="files for each cell (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0); file i has seed + i")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    chosen = _chosen(options)
    if not chosen:
        parser.error(f"no name of a cell has all of these words (its spaces are underscores): {' '.join(options.only)}")
    counts: dict[int, Counter[str]] = {index: Counter() for index in chosen}
    known: Counter[int] = Counter()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        seeds = range(options.seed, options.seed + options.files)
        futures = [pool.submit(try_numbered, index, seed) for index in chosen for seed in seeds]
        for done, future in enumerate(futures, 1):
            index, seed, outcome = future.result()
            counts[index][outcome.word] += 1
            if outcome.number is not None:
                known[outcome.number] += 1
            if outcome.word == "broken":
                print(f"\nBROKEN {CELLS[index]} seed {seed}\n{outcome.text}", flush=True)
            if done % 500 == 0:
                print(f"{done} of {len(futures)} files", file=sys.stderr, flush=True)
    print(f"\nseeds {options.seed} to {options.seed + options.files - 1}\n\n{_table(chosen, counts)}\n")
    for number, times in sorted(known.items()):
        row = EXCEPTIONS[number]
        print(f"{number} ({times} files; {row.forms}; {row.reader}): {row.what} {row.why}")
    missing = sorted({name for cell in CELLS for name in cell.missing})
    if missing:
        print(f"cells left out, since these judges are not installed (extra: oracles): {', '.join(missing)}")
    broken = sum(each["broken"] for each in counts.values())
    print(f"{len(chosen)} cells, {sum(map(Counter.total, counts.values()))} files, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
