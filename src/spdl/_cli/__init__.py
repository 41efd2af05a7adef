"""The command line: ``spdl load``, ``doctor``, ``report``, ``quarantine``, ``top``, ``stats`` and ``dump``.

``main`` parses the arguments and runs the command; each command has its own module.
"""

import argparse
import sys
from collections.abc import Sequence

from spdl import __version__
from spdl._cli import _doctor, _options, _quarantine, _watch
from spdl._cli._options import CommandError as CommandError
from spdl._cli._options import ExitCode as ExitCode

__all__ = ["CommandError", "ExitCode", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see :class:`ExitCode`).

    Args:
        argv: Command-line arguments without the program name; default: those of the process.
    """
    parser = argparse.ArgumentParser(prog="spdl", description="Scalable and performant data loading.")
    parser.add_argument("--version", action="version", version=f"spdl {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    _options.add_parser(commands)
    _doctor.add_parser(commands)
    _watch.add_report_parser(commands)
    _quarantine.add_parser(commands)
    _watch.add_parsers(commands)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as exit_:  # argparse has printed its message
        return exit_.code if isinstance(exit_.code, int) else ExitCode.USAGE
    name = f"spdl {arguments.command}"
    try:
        if arguments.command in ("top", "stats", "dump"):
            return _watch.watch(arguments)
        if arguments.command == "doctor":
            return _doctor.doctor(as_json=arguments.json)
        if arguments.command == "report":
            return _watch.report(arguments.files, arguments.output)
        if arguments.command == "quarantine":
            return _quarantine.quarantine(arguments)
        options = _options.LoadOptions.of(arguments)
        # Imported late, so that --help and --version are fast and need no native part.
        from spdl._cli._load import load

        return load(options)
    except CommandError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:  # before the pipeline runs; after that, load() handles it
        print(f"{name}: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Python flushes stdout again at exit: without stdout, that cannot fail.
        sys.stdout = None
        return ExitCode.FAILED
