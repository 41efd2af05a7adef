"""The command line, the same for all benchmarks."""

import argparse
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from .contest import Case, Contest

__all__ = ["chosen", "parser_of"]


def parser_of(contest: Contest) -> argparse.ArgumentParser:
    known = [peer.name for peer in contest.peers]

    def peer_names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name!r}; there are: {', '.join(known)}")
        return text.split(",")

    parser = argparse.ArgumentParser(prog=f"benchmarks/{contest.name}/run.py", description=contest.question)
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument("--rounds", type=_positive, help=f"turns of each peer in each case (default {contest.rounds})")
    parser.add_argument(
        "--seconds", type=float, default=contest.seconds, help="minimum length of a turn (default %(default)s)"
    )
    parser.add_argument(
        "--cases", type=lambda text: text.split(","), help="comma-separated, * for any characters; default all"
    )
    parser.add_argument("--peers", type=peer_names, help="comma-separated; default all of: " + ", ".join(known))
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the result to this file (default: in results/)"
    )
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    parser.add_argument(
        "--spdl-tree",
        type=Path,
        metavar="PATH",
        help="another checkout of SPDL with its .venv: each peer that is SPDL has a twin that uses it, NAME-before;"
        " stored only with --json",
    )
    return parser


def chosen(parser: argparse.ArgumentParser, cases: Sequence[Case], options: argparse.Namespace) -> list[Case]:
    """The cases that match one of the patterns in ``--cases``. Ends the program if a pattern matches none."""
    if options.cases is None:
        return [case for case in cases if case.is_quick or not options.quick]
    for pattern in options.cases:
        if not any(fnmatchcase(case.name, pattern) for case in cases):
            names = ", ".join(case.name for case in cases)
            parser.error(f"argument --cases: no case is called {pattern!r}; there are: {names}")
    return [case for case in cases if any(fnmatchcase(case.name, pattern) for pattern in options.cases)]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be >= 1, got {number}")
    return number
