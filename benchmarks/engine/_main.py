"""The command line: the measurements, the peers, and the result file."""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._contest.client import PeerError
from benchmarks._contest.environments import SetupError, interpreter_of
from benchmarks._contest.figures import Figure, figures_markdown
from benchmarks._contest.machine import describe_run

from ._cases import CASES, SINK_SIZE, Case, case_named
from ._client import Client
from ._measure import (
    OutputMismatch,
    Settings,
    check_outputs,
    measure_cases,
    measure_first_item,
    measure_import,
    measure_zlib,
)
from ._peers import OURS, PEERS, REFERENCE, TORCH, is_torch_here, peer_named
from ._report import case_figure, import_figures, limit_figure, markdown, zlib_figure

__all__ = ["main"]

#: Measurements that are not a cost per item; valid in ``--cases`` too.
_FURTHER = ("first_item", "import", "zlib")

_FIRST_ITEM_LIMIT_MS = 2.0
_IMPORT_LIMIT_MS = 100.0
_ZLIB_SCALING = 1.9

_RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: list[str]) -> int:
    """Measure, print, store.

    Returns:
        0; 1 if ``--require`` was given and a requirement is missed or could not be measured; 2 if a peer failed or its
        output differs from the others, in which case nothing is reported.
    """
    options = _parser().parse_args(arguments)
    settings = _settings(options)
    names = options.cases or [*(case.name for case in CASES), *_FURTHER]
    try:
        if options.install_torch and not is_torch_here():
            interpreter_of(TORCH)
        result, figures, tables = _measure(names, options.peers, settings, arguments)
    except (PeerError, SetupError, OutputMismatch) as exc:
        print(f"engine benchmark: {exc}", file=sys.stderr)
        return 2
    if options.markdown or options.json is None:
        print(tables)
    path = options.json or (None if options.quick else _default_path(result))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {path}", file=sys.stderr)
    if options.require and not all(figure.passed for figure in figures):
        missed = [f"{figure.title} ({figure.verdict})" for figure in figures if not figure.passed]
        print("engine benchmark: requirements not met: " + "; ".join(missed), file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks/engine/run.py",
        description="What does an item cost in the engine, against peers that do the same no-op work?",
    )
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument("--rounds", type=_positive, help=f"turns of every peer (default {Settings().rounds})")
    parser.add_argument(
        "--cases",
        type=_names([*(case.name for case in CASES), *_FURTHER]),
        help="comma-separated; default all of: " + ", ".join([*(case.name for case in CASES), *_FURTHER]),
    )
    every = [peer.name for peer in PEERS]
    parser.add_argument(
        "--peers", type=_names(every), default=every, help="comma-separated; default all of: " + ", ".join(every)
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the result to this file (default: in results/)"
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables even when --json is given")
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    parser.add_argument(
        "--install-torch",
        action="store_true",
        help="make an environment with torch and torchdata for their adapters if this one lacks them (some gigabytes)",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be >= 1, got {number}")
    return number


def _names(known: list[str]) -> Any:
    def parse(text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name!r}; there are: {', '.join(known)}")
        if not chosen:
            raise argparse.ArgumentTypeError("no name given")
        return chosen

    return parse


def _settings(options: argparse.Namespace) -> Settings:
    base = Settings.quick() if options.quick else Settings()
    if options.rounds is None:
        return base
    return Settings(options.rounds, base.seconds, base.repeats, base.zlib_items)


def _measure(
    names: list[str], peer_names: list[str], settings: Settings, arguments: list[str]
) -> tuple[dict[str, Any], list[Figure], str]:
    environment = describe_run("benchmarks/engine/run.py", arguments)
    cases = [case_named(name) for name in names if name not in _FURTHER]
    figures: list[Figure] = []
    other_rows: list[tuple[str, dict[str, list[float]], str]] = []
    with ExitStack() as stack:
        clients, about, skipped = _start(stack, peer_names)

        def can(client: Client, case: Case) -> bool:
            return case.name in about[client.peer.name]["cases"]

        check_outputs(clients, cases, can)
        results = measure_cases(clients, cases, can, settings)
        figures += map(case_figure, results)
        result: dict[str, Any] = {
            "question": "What does an item cost in the engine, against peers that do the same no-op work?",
            "environment": environment,
            "settings": {"sink": SINK_SIZE, **_as_dict(settings)},
            "peers": {name: about[name]["versions"] for name in about},
            "skipped": skipped,
            "cases": [case_result.as_json() for case_result in results],
        }
        if "first_item" in names:
            able = [client for client in clients if about[client.peer.name]["first_item"]]
            times = result["first_item_ms"] = measure_first_item(able, settings)
            figures.append(limit_figure("build + first item + stop", _FIRST_ITEM_LIMIT_MS, times.get(OURS)))
            other_rows.append(("build + first item + stop", times, "ms"))
        if "import" in names:
            able = [client for client in clients if client.peer.name in (OURS, REFERENCE)]
            times, brought = measure_import(able, settings)
            result["import_ms"], result["import_brings"] = times, brought
            figures += import_figures(_IMPORT_LIMIT_MS, times.get(OURS), brought.get(OURS))
            other_rows.append(("import of the pipeline package", times, "ms"))
        if "zlib" in names:
            able = [client for client in clients if about[client.peer.name]["compress"]]
            rates = result["zlib_mb_per_s"] = measure_zlib(able, settings)
            figures.append(zlib_figure("ours", _ZLIB_SCALING, rates.get(OURS)))
            for threads in ("1", "2"):
                title = f"zlib.compress on 1 MB, {threads} thread{'s' * (threads > '1')}"
                other_rows.append((title, {peer: by_threads[threads] for peer, by_threads in rates.items()}, "MB/s"))
    result["figures"] = [figure.as_json() for figure in figures]
    tables = _page(environment, about, skipped, markdown(results, list(about), other_rows), figures)
    return result, figures, tables


def _start(stack: ExitStack, peer_names: list[str]) -> tuple[list[Client], dict[str, dict[str, Any]], dict[str, str]]:
    """Start a worker for each peer that is installed; list the others."""
    clients: list[Client] = []
    about: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    for name in peer_names:
        client = stack.enter_context(Client(peer_named(name)))
        description = client.ask("describe", cases=[case.name for case in CASES])
        if description["available"]:
            clients.append(client)
            about[name] = description
        else:
            skipped[name] = "not installed"
            print(f"{name}: skipped, not installed", file=sys.stderr)
    return clients, about, skipped


def _as_dict(settings: Settings) -> dict[str, float]:
    return {
        "rounds": settings.rounds,
        "seconds": settings.seconds,
        "repeats": settings.repeats,
        "zlib_items": settings.zlib_items,
    }


def _page(
    environment: dict[str, Any],
    about: dict[str, dict[str, Any]],
    skipped: dict[str, str],
    tables: str,
    figures: list[Figure],
) -> str:
    versions = {f"{package} {number}": None for peer in about.values() for package, number in peer["versions"].items()}
    where = (
        f"{environment['python']}, {environment['cpu']}, {environment['cores']} cores, {environment['os']},"
        f" {environment['date'][:10]}, revision {environment['revision']}; {', '.join(versions)}."
    )
    left_out = f" Not installed: {', '.join(skipped)}." if skipped else ""
    return f"{figures_markdown(figures)}\n\n{tables}\n\n{where}{left_out} `{environment['command']}`"


def _default_path(result: dict[str, Any]) -> Path:
    environment = result["environment"]
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    return _RESULTS / f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
