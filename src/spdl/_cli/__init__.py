"""The command line: ``spdl load``, ``doctor`` and ``quarantine``. Uses only public names of the other packages."""

from spdl._cli._exits import CommandError as CommandError
from spdl._cli._exits import ExitCode as ExitCode
from spdl._cli._main import main as main

__all__ = ["CommandError", "ExitCode", "main"]
