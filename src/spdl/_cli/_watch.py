"""``spdl top``, ``stats`` and ``dump`` show the pipelines of a running process, ``spdl report`` saved statistics."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._cli._options import CommandError, ExitCode
from spdl._monitor import MonitorError
from spdl._monitor._client import Connection, connect, living

if TYPE_CHECKING:
    from spdl._cli._options import SubParsers
    from spdl.pipeline import PipelineStats

#: Statistics by host (``None``: this host), pid and pipeline number.
Shown: TypeAlias = "dict[tuple[str | None, int, int], PipelineStats]"

_HOW = """\
The process must have been started with SPDL_MONITOR=1 in its environment, or must have called pipeline.monitor().
Processes of other users cannot be inspected. The process itself is not changed.
"""

_SILENT = "it does not answer"
_INTERVAL = 1.0  # s between two screens
_WIDTH = 100  # columns; also the width of the table

EPILOG = """\
A program saves its statistics with one line, at its end or at any time while the pipeline runs:

  pipeline.stats().to_json("stats.json")

Several files, such as one of each rank, give one page. It is one file without scripts, and needs no network.
pipeline.stats().to_html("report.html") makes the same page directly.

exit codes:
  0  the page was written
  1  it cannot be written, or a file is not one of to_json()
  2  wrong options
  3  a file is missing or cannot be read
"""


def add_parsers(commands: SubParsers) -> None:
    """Add ``top``, ``stats`` and ``dump`` to the commands of ``spdl``."""
    for name, text in (
        ("top", "show the pipelines of a running process: graph, rates, fills, failures and verdict, refreshed"),
        ("stats", "show the statistics of the pipelines of a running process once"),
        ("dump", "show what a running process does: its pipelines, the calls in flight, and the stacks"),
    ):
        parser = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.\n\n{_HOW}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument(
            "pid", nargs="?", type=_pid, metavar="PID", help="the process (default: the only one that is monitored)"
        )
        if name == "stats":
            parser.add_argument("--json", action="store_true", help="write one JSON object; times are in seconds")


def watch(arguments: argparse.Namespace) -> int:
    """Run one of the commands."""
    try:
        pid = _only_process() if arguments.pid is None else arguments.pid
        if arguments.command == "top":
            return _top(pid)
        answers = ask_all(pid, arguments.command)
        if arguments.command == "dump":
            roles = _roles(answers)
            _write("\n\n".join(f"{_heading(answer, roles)}\n{answer['text']}" for answer in answers))
        elif arguments.json:
            first, *rest = answers
            _write(json.dumps({**first, "processes": rest}, indent=1))
        else:
            _write("\n\n".join(screen(answers, {})))
    except MonitorError as error:
        raise CommandError(str(error), ExitCode.FAILED) from None
    return ExitCode.OK


def ask_all(pid: int, view: str) -> list[dict[str, Any]]:
    """Return the answers of a process, of its monitored children, and of its workers on other hosts."""
    with ExitStack() as stack:
        return list(_ask(stack.enter_context(connect(pid)), view, lambda child: stack.enter_context(connect(child))))


def _ask(connection: Connection, view: str, reach: Callable[[int], Connection]) -> Iterator[dict[str, Any]]:
    answer = connection.ask(view)
    yield answer
    for child in answer["children"]:
        try:
            yield from _ask(reach(child["pid"]), view, reach)
        except MonitorError:  # the child has no pipeline, or has ended
            continue
    yield from _elsewhere(answer)


def _elsewhere(answer: dict[str, Any], host: str | None = None) -> Iterator[dict[str, Any]]:
    """The answers of the workers of a process on ``host``, which its answer contains: they may run on other hosts."""
    for worker in answer.get("elsewhere", ()):
        found = worker.pop("answer")
        if found is None:
            found = {"pid": worker["pid"], "argv": [], "pipelines": None, "text": _SILENT}
        where = worker["host"] or host
        yield {**found, "host": where}
        yield from _elsewhere(found, where)


def _only_process() -> int:
    found = living()
    if len(found) == 1:
        return found[0]
    if not found:
        raise MonitorError(f"no process is monitored. {_HOW.splitlines()[0]}")
    roots = set(found)
    lines = []
    for pid in found:
        try:
            with connect(pid) as connection:
                answer = connection.ask("stats")
        except MonitorError:
            continue
        roots -= {child["pid"] for child in answer["children"]}
        roots -= {worker["pid"] for worker in answer.get("elsewhere", ()) if worker["host"] is None}
        lines.append((pid, f"  {pid}  {' '.join(answer['argv'])[:80]}"))
    shown = [(pid, text) for pid, text in lines if pid in roots]
    if not shown:
        raise MonitorError(f"none of the monitored processes answers: {', '.join(map(str, found))}")
    if len(shown) == 1:
        return shown[0][0]
    raise MonitorError("several processes are monitored; say which one:\n" + "\n".join(text for _, text in shown))


# ---------------------------------------------------------------------------------------------------------------- text


def screen(answers: list[dict[str, Any]], before: Shown, width: int = _WIDTH) -> list[str]:
    """Return a block of text for each pipeline. Stores the statistics in ``before``, so that the next screen shows the
    interval since this one. ``answers``: of the processes, the requested one first.
    """
    from spdl.pipeline._observe._document import document_of, headline, stage_lines  # imported late, as in _stats_of

    blocks = []
    roles = _roles(answers)
    for answer in answers:
        heading = _heading(answer, roles)
        pipelines = answer["pipelines"]
        if not pipelines:
            blocks.append(f"{heading}\n{_SILENT if pipelines is None else 'no pipeline has been started'}")
        for pipeline in pipelines or ():
            stats = _stats_of(pipeline)
            key = answer.get("host"), answer["pid"], pipeline["id"]
            earlier, before[key] = before.get(key), stats
            # The interval; the whole run if the pipeline has ended or made little progress.
            document = document_of(
                stats - earlier if earlier is not None and stats.elapsed > earlier.elapsed else stats
            )
            whole = f"pipeline {pipeline['id']}: {headline(document)}"
            lines = [heading, *wrap(whole, width, subsequent_indent="   "), *stage_lines(document, width)]
            if pipeline["verdict"] is not None:
                for line in pipeline["verdict"]["text"].splitlines():
                    lines += wrap(line, width, subsequent_indent="   ")
            lines += _failures(pipeline, width)
            blocks.append("\n".join(lines))
    return blocks


def _stats_of(pipeline: dict[str, Any]) -> PipelineStats:
    from spdl.pipeline import PipelineStats, StageInfo, StageStats  # imported late, to show the first screen sooner

    names = {each.name for each in fields(StageStats) if each.init}
    stages = []
    for stage in pipeline["stages"]:
        calls = stage["concurrency"]
        info = StageInfo(pipeline["id"], stage["id"], stage["name"], calls if calls > 1 else None)
        values = {name: value for name, value in stage.items() if name in names and name != "failures"}
        stages.append(StageStats(info=info, **values))
    whole = {name: pipeline[name] for name in ("elapsed", "state", "num_threads", "num_items", "consumer_wait")}
    verdict = pipeline["verdict"] or {}
    blamed = {"consumer": "sink", "unsure": None}.get(verdict.get("cause", "unsure"), verdict.get("stage"))
    return PipelineStats(stages=tuple(stages), explain=lambda stats: (blamed, ""), **whole)


def _heading(answer: dict[str, Any], roles: dict[tuple[str | None, int], str]) -> str:
    """The program; for a child, its role for its parent."""
    host, pid = answer.get("host"), answer["pid"]
    what = roles.get((host, pid)) or " ".join(answer["argv"])
    return f"process {pid}{f' on {host}' if host else ''}: {what[:80]}".rstrip(": ")


def _roles(answers: list[dict[str, Any]]) -> dict[tuple[str | None, int], str]:
    """The roles of the children by host and pid, as their parents describe them."""
    return {
        (child.get("host") or answer.get("host"), child["pid"]): (
            f"{child['what'][:1].lower()}{child['what'][1:]}, of process {answer['pid']}"
        )
        for answer in answers
        for child in (*answer.get("children", ()), *answer.get("elsewhere", ()))
    }


def _failures(pipeline: dict[str, Any], width: int) -> list[str]:
    lines = []
    for stage in pipeline["stages"]:
        for failure in stage["failures"][-1:]:
            text = f"{stage['name']} failed on {failure['item']}: {failure['error'].splitlines()[0]}"
            lines.append(f"last failure: {text}"[:width])
    return lines


def _write(text: str) -> None:
    # File names may have characters that the terminal cannot show.
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


# ----------------------------------------------------------------------------------------------------------------- top


def _top(pid: int) -> int:
    try:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        raise CommandError(
            "needs the package rich: pip install 'spdl-native[top]'; `spdl stats` does not need it", ExitCode.FAILED
        ) from None
    before: Shown = {}
    console = Console()

    def draw() -> Group:
        blocks = screen(ask_all(pid, "stats"), before, min(_WIDTH, console.width))
        lines = [line for block in blocks for line in (*block.splitlines(), "")]
        return Group(*(Text(line, style=_style(line), no_wrap=True, overflow="ellipsis") for line in lines))

    try:
        if not console.is_terminal:  # in a file, screens follow one another
            while True:
                console.print(draw())
                sys.stdout.flush()
                time.sleep(_INTERVAL)
        with Live(draw(), console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(_INTERVAL)
                live.update(draw(), refresh=True)
    except KeyboardInterrupt:
        return ExitCode.OK
    except MonitorError as error:
        if not before:
            raise
        print(f"spdl top: {error}", file=sys.stderr)  # the process has ended after it was shown: not a failure
        return ExitCode.OK


def _style(line: str) -> str:
    if line.startswith("->"):
        return "bold yellow"
    if line.startswith("process"):
        return "bold"
    return "red" if line.startswith("last failure") else ""


def _pid(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be the number of a process, got {text!r}")
    return int(text)


def add_report_parser(commands: SubParsers) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "report",
        help="make an HTML page of saved statistics",
        description="Make an HTML page of the statistics of pipelines: graph, limits, rates over time, failures.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="file that stats().to_json() has written")
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="page to write [report.html]")


def report(files: list[str], output: str) -> int:
    """Write the page."""
    from spdl.metrics import write_report  # imported late: only this command needs it

    try:
        write_report(files, output)
    except ValueError as exc:
        raise CommandError(str(exc), ExitCode.FAILED) from exc
    except OSError as exc:
        code = ExitCode.FAILED if exc.filename == output else ExitCode.PATH_UNREADABLE
        raise CommandError(f"{exc.filename}: {exc.strerror}", code) from exc
    print(output)
    return ExitCode.OK
