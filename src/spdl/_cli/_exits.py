"""Exit codes of the command line, and the error that carries one. Imports nothing of ours."""

from enum import IntEnum

__all__ = ["CommandError", "ExitCode"]


class ExitCode(IntEnum):
    """What the exit code of ``spdl`` means. Scripts depend on the numbers: they never change their meaning."""

    OK = 0
    FAILED = 1  #: the pipeline or the installation failed
    USAGE = 2  #: options that make no sense; argparse's own number
    PATH_UNREADABLE = 3  #: a given path is missing or cannot be read
    NO_IMAGES = 4  #: the paths are there and hold no image that can be loaded
    NOTHING_LOADED = 5  #: there are images and not one of them could be loaded
    CORRUPT_FILE = 6  #: ``--strict`` and a file could not be loaded
    INTERRUPTED = 130  #: Ctrl-C; 128 + SIGINT, as shells count


class CommandError(Exception):
    """The command cannot go on: a message for a person, and the exit code for a script."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code
