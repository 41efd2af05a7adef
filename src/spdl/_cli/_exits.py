"""Exit codes of the command line, and the error that carries one."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of ``spdl``. Scripts depend on the numbers: their meaning never changes."""

    OK = 0
    FAILED = 1  #: the pipeline or the installation failed
    USAGE = 2  #: invalid options; the same number as argparse
    PATH_UNREADABLE = 3  #: a given path is missing or cannot be read
    NO_IMAGES = 4  #: the paths exist but contain no supported image
    NOTHING_LOADED = 5  #: there are images, but none could be loaded
    CORRUPT_FILE = 6  #: ``--strict`` and a file could not be loaded
    INTERRUPTED = 130  #: Ctrl-C; 128 + SIGINT, as in shells


class CommandError(Exception):
    """The command failed: a message for the user and the exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code
