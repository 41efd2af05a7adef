"""The command line: ``spdl load``, ``doctor``, ``report``, ``quarantine``, ``top``, ``stats`` and ``dump``.

``_main.py`` parses the arguments and runs the command; each command has its own module.
"""

from spdl._cli._exits import CommandError as CommandError
from spdl._cli._exits import ExitCode as ExitCode
from spdl._cli._main import main as main

__all__ = ["CommandError", "ExitCode", "main"]
