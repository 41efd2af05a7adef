"""Parses the command line and hands over to the command."""

import argparse
import sys
from collections.abc import Sequence

from spdl import __version__
from spdl._cli import _doctor, _load_options
from spdl._cli._exits import CommandError, ExitCode

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and get its exit code (see :class:`ExitCode`).

    Args:
        argv: Words of the command line, without the program's name; default: those of the process.
    """
    parser = argparse.ArgumentParser(prog="spdl", description="Scalable and performant data loading.")
    parser.add_argument("--version", action="version", version=f"spdl {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    _load_options.add_parser(commands)
    _doctor.add_parser(commands)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as exit_:  # argparse has said what it had to say
        return exit_.code if isinstance(exit_.code, int) else ExitCode.USAGE
    name = f"spdl {arguments.command}"
    try:
        if arguments.command == "doctor":
            return _doctor.doctor(as_json=arguments.json)
        options = _load_options.LoadOptions.of(arguments)
        # Late, so that --help and --version answer at once and without the native part.
        from spdl._cli._load import load

        return load(options)
    except CommandError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:  # before the pipeline ran; from then on load() answers for it
        print(f"{name}: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has had enough. Python flushes stdout once more at exit: give it nothing to fail on.
        sys.stdout = None
        return ExitCode.FAILED
