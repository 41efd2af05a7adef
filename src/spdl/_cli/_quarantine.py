"""``spdl quarantine``: show a file of failed items, retry them, or list keys to exclude."""

import argparse
import importlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from spdl._cli._options import CommandError, ExitCode
from spdl._reports import printable, text_of

#: Width of the table, in columns.
_WIDTH = 100


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "quarantine",
        help="work with the items that failed",
        description="Work with the file that build(quarantine=FILE) wrote: one line for each failed item.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    show = actions.add_parser("show", help="how many items failed, by stage and error")
    retry = actions.add_parser("retry", help="call a function on the keys, and say which succeed now")
    exclude = actions.add_parser("exclude", help="the keys of the failed items, one a line")
    for action in (show, retry, exclude):
        action.add_argument("file", metavar="FILE", help="the quarantine file")
    retry.add_argument("op", metavar="MODULE:CALLABLE", help="function of a key, such as mypackage.data:load")
    retry.add_argument("--jobs", "-j", type=int, default=4, metavar="N", help="calls at once (default: %(default)s)")
    retry.add_argument("--out", metavar="FILE", help="write the lines of the items that still fail to this file")
    exclude.add_argument("--stage", metavar="NAME", help="only failures of this stage")
    exclude.add_argument("--error", metavar="CLASS", help="only failures with an exception of this class")
    exclude.add_argument("--out", metavar="FILE", help="write to this file instead of the standard output")


def quarantine(arguments: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    lines = _read(arguments.file)
    if arguments.action == "show":
        return _show(arguments.file, lines)
    if arguments.action == "exclude":
        return _exclude(lines, arguments.stage, arguments.error, arguments.out)
    return _retry(lines, _function(arguments.op), arguments.jobs, arguments.out)


def _read(path: str) -> list[Any]:
    from spdl.pipeline import read_quarantine  # late: --help needs no pipeline

    try:
        return read_quarantine(path)
    except OSError as exc:
        raise CommandError(f"cannot read {path}: {exc.strerror or exc}", ExitCode.PATH_UNREADABLE) from None


def _show(path: str, lines: list[Any]) -> int:
    if not lines:
        print(f"{path}: no failed items")
        return ExitCode.OK
    groups = Counter((line.stage, line.error) for line in lines)
    newest = {(line.stage, line.error): line for line in lines}
    stages = max(len("stage"), *(len(_plain(stage)) for stage, _ in groups))
    errors = max(len("error"), *(len(_plain(error)) for _, error in groups))
    counts = max(len("failures"), *(len(f"{number:,}") for number in groups.values()))
    print(f"{'failures':>{counts}}  {'stage':<{stages}}  {'error':<{errors}}  newest")
    for (stage, error), number in sorted(groups.items(), key=lambda each: (-each[1], each[0])):
        last = newest[stage, error]
        what = f"{_plain(last.key)}: " if last.key is not None else ""
        head = f"{number:>{counts},}  {_plain(stage):<{stages}}  {_plain(error):<{errors}}"
        _print_cut(f"{head}  {what}{_plain(last.message)}", _WIDTH)
    keys = {line.key for line in lines if line.key is not None}
    batches = sum(len(line.keys) > 1 for line in lines)
    whole = f", {batches:,} whole batches" if batches else ""
    print(f"{len(lines):,} failures, {len(keys):,} different keys{whole}")
    return ExitCode.OK


def _exclude(lines: list[Any], stage: str | None, error: str | None, out: str | None) -> int:
    chosen = [
        line
        for line in lines
        if line.key is not None and (stage is None or line.stage == stage) and (error is None or line.error == error)
    ]
    # The output has one key per line, so a key with a line break cannot be written. A terminal gets no key that could
    # write to it what it likes: such keys are escaped, and are exact in a file.
    keys = dict.fromkeys(str(line.key) for line in chosen)
    written = [key for key in keys if len(key.splitlines()) <= 1]
    _write(written if out is not None else map(_plain, written), out)
    num_others = sum(line.key is None for line in lines)
    notes = [
        (num_others, "failures without a key are omitted"),
        (len(keys) - len(written), "keys with a line break are omitted"),
    ]
    if out is None:
        num_escaped = sum(_plain(key) != key for key in written)
        notes.append((num_escaped, "keys are escaped or cut here; --out writes them as they are"))
    for number, note in notes:
        if number:
            print(f"spdl quarantine: {number:,} {note}", file=sys.stderr)
    return ExitCode.OK


def _retry(lines: list[Any], op: Callable[[Any], Any], jobs: int, out: str | None) -> int:
    from spdl.pipeline import FailureEvent, PipelineBuilder

    keys = list(dict.fromkeys(line.key for line in lines if line.key is not None))
    failed: dict[Any, BaseException] = {}

    def note(event: FailureEvent) -> None:
        failed[event.item] = event.error

    if jobs < 1:
        raise CommandError(f"--jobs must be >= 1, got {jobs}", ExitCode.USAGE)

    def run(key: Any) -> Any:
        op(key)
        return (key,)

    builder = PipelineBuilder().add_source(keys).pipe(run, concurrency=jobs, output_order="input", max_failures=-1)
    pipeline = builder.add_sink().build(num_threads=jobs, on_failure=note)
    with _quiet(), pipeline.auto_stop():
        done = [key for (key,) in pipeline]
    for key in done:
        print(f"ok     {_plain(key)}")
    for key, error in failed.items():
        _print_cut(f"fails  {_plain(key)}: {_plain(type(error).__name__)}: {_plain(error)}", 2 * _WIDTH)
    print(f"{len(done):,} of {len(keys):,} succeed now, {len(failed):,} still fail")
    if out is not None:
        _write([line.line for line in lines if line.key is None or line.key in failed], out)
    return ExitCode.FAILED if failed else ExitCode.OK


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress log records: this command prints the errors itself."""
    logger = logging.getLogger("spdl.pipeline")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def _function(name: str) -> Callable[[Any], Any]:
    module, _, path = name.partition(":")
    if not module or not path:
        raise CommandError(f"{name!r} must be MODULE:CALLABLE, such as mypackage.data:load", ExitCode.USAGE)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as ``python -m`` does
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as exc:
        raise CommandError(f"cannot find {name}: {exc}", ExitCode.USAGE) from None
    except Exception as exc:
        raise CommandError(f"cannot import {module}: {type(exc).__name__}: {exc}", ExitCode.USAGE) from exc
    if not callable(found):
        raise CommandError(f"{name} cannot be called: it is {found!r}", ExitCode.USAGE)
    return found  # type: ignore[no-any-return]


def _print_cut(text: str, width: int) -> None:
    print(text if len(text) <= width else text[: width - 3] + "...")


def _plain(value: object) -> str:
    """The value as one line of characters that any terminal can show."""
    return printable(text_of(value).replace("\n", " "))


def _write(lines: Iterable[str], out: str | None) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        sys.stdout.write(text.encode(errors="backslashreplace").decode())
        return
    try:
        with open(out, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as exc:
        raise CommandError(f"cannot write {out}: {exc.strerror or exc}", ExitCode.FAILED) from None
