"""What commands are given and return: exit codes, and the options of ``spdl load`` as one frozen record."""

import argparse
import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from spdl._addresses import is_url, local_path

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]  # argparse has no public name for it


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


PIX_FMTS = ("rgb24", "bgr24", "gray")

EPILOG = """\
A file that cannot be loaded is skipped, counted, and listed at the end. With --strict it ends the run.

exit codes:
  0    success; files that could not be loaded are listed
  1    the pipeline or the installation failed
  2    wrong options
  3    a path is missing or cannot be read
  4    no image was found under the paths
  5    images were found and none could be loaded
  6    a file could not be loaded, and --strict was given
  130  interrupted with Ctrl-C

examples:
  spdl load photos/
  spdl load --size 256x256 --batch-size 64 --epochs 3 train/ val/
  spdl load --json --quiet photos/ > run.json
  spdl load s3://bucket/train/     (with the extra: pip install 'spdl-native[remote]')
"""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of one run of ``spdl load``. Sizes are in pixels."""

    paths: tuple[Path | str, ...]  #: as given; URLs of object stores and web servers are ``str``
    batch_size: int = 32
    width: int = 224
    height: int = 224
    threads: int | None = None  #: ``None``: one per usable CPU
    epochs: int = 1
    pix_fmt: str = "rgb24"
    json: bool = False
    strict: bool = False
    quiet: bool = False

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "LoadOptions":
        given = {name: value for name, value in vars(arguments).items() if name not in ("command", "paths", "size")}
        width, height = arguments.size
        return cls(tuple(arguments.paths), width=width, height=height, **given)


def add_parser(commands: "SubParsers") -> None:
    """Add ``load`` to the commands of ``spdl``."""
    parser = commands.add_parser(
        "load",
        help="load images as batches; show the speed and the limiting stage",
        description="Find images under the paths, load them as batches through a pipeline, and show the speed and the\n"
        "limiting stage. Folders are searched recursively.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        type=path_or_url,
        metavar="PATH",
        help="an image, or a folder of images; or a URL: s3://bucket/folder, s3://bucket/train/**/*.jpg, gs://, az://",
    )
    parser.add_argument("--batch-size", type=_positive, default=32, metavar="N", help="images per batch (default: 32)")
    parser.add_argument(
        "--size",
        type=_size,
        default=(224, 224),
        metavar="WxH",
        help="size of the images in a batch, or one number for a square (default: 224x224); each image is scaled to"
        " fit, centred and padded",
    )
    parser.add_argument("--threads", type=_positive, metavar="N", help="worker threads (default: one per usable CPU)")
    parser.add_argument(
        "--epochs", type=_positive, default=1, metavar="N", help="number of times to load all images (default: 1)"
    )
    parser.add_argument("--pix-fmt", choices=PIX_FMTS, default="rgb24", help="pixel format (default: rgb24)")
    parser.add_argument("--json", action="store_true", help="write the result to stdout as one JSON object instead")
    parser.add_argument("--strict", action="store_true", help="stop at the first file that cannot be loaded")
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")


def path_or_url(text: str) -> Path | str:
    """Convert to ``Path``, except URLs, which stay text because ``Path`` would merge their double slash."""
    if not is_url(text):
        return Path(text)
    return Path(local_path(text)) if text.startswith("file://") else text


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number >= 1, got {text!r}")
    return value


def _size(text: str) -> tuple[int, int]:
    """Parse ``224x168`` or ``224`` into width and height."""
    match = re.fullmatch(r"(\d{1,5})(?:[xX](\d{1,5}))?", text)
    if match is None or int(match[1]) < 1 or (match[2] is not None and int(match[2]) < 1):
        raise argparse.ArgumentTypeError(f"must be WIDTHxHEIGHT or one number, in pixels, got {text!r}")
    return int(match[1]), int(match[2] or match[1])
