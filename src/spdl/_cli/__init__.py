"""The command line: ``spdl load`` and ``spdl doctor``. It goes through the public names of the packages below only."""

from spdl._cli._exits import CommandError as CommandError
from spdl._cli._exits import ExitCode as ExitCode
from spdl._cli._main import main as main

__all__ = ["CommandError", "ExitCode", "main"]
