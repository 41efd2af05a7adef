"""``spdl report``: an HTML page of saved statistics."""

import argparse
from typing import TYPE_CHECKING

from spdl._cli._exits import CommandError, ExitCode

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]  # argparse has no public name for it

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


def add_parser(commands: "SubParsers") -> None:
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
