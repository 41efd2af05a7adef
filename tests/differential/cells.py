"""Cells of the matrix: a law for one form of media, and the outcome of trying it on one generated file."""

import random
import tempfile
import traceback
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.differential.exceptions import EXCEPTIONS

__all__ = ["CELLS", "Cell", "Draw", "KnownExceptionError", "NotMadeError", "Outcome", "law", "try_cell"]


class KnownExceptionError(Exception):
    """Raised by a check that met a numbered row of ``exceptions.py``."""

    def __init__(self, number: int) -> None:
        super().__init__(f"exception {number}: {EXCEPTIONS[number].what}")
        self.number = number


class NotMadeError(Exception):
    """Raised by a check whose file cannot be made here, such as for a missing encoder; the message says what lacks."""


@dataclass(slots=True)
class Draw:
    """What a check makes one file from.

    Attributes:
        random: The source of all choices; the same seed gives the same file.
        folder: An empty folder, removed after the check.
        recipe: What was chosen, such as command lines; shown if the check fails.
    """

    random: random.Random
    folder: Path
    recipe: list[str] = field(default_factory=list)

    def note(self, text: object) -> None:
        """Add a line to the recipe."""
        self.recipe.append(str(text))


@dataclass(frozen=True, slots=True)
class Cell:
    """A law for one form of media.

    Attributes:
        kind: ``"video"``, ``"sound"`` or ``"still"``.
        form: The container or format, with its codec and options, such as ``"mkv/vp8"``.
        law: The short name of the law.
        check: Makes one file and raises ``AssertionError`` if the law does not hold for it.
        modules: Modules of judges without which the cell cannot be tried.
        is_costly: Whether only a soak tries it, for the time that it takes; the same form or law has cheaper cells.
    """

    kind: str
    form: str
    law: str
    check: Callable[[Draw], None]
    modules: tuple[str, ...] = ()
    is_costly: bool = False

    def __str__(self) -> str:
        return f"{self.kind}-{self.form}-{self.law}".replace("/", "-").replace(" ", "_")

    @property
    def missing(self) -> list[str]:
        """Modules of judges that are not installed."""
        return [name for name in self.modules if find_spec(name) is None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one file: ``"held"``, ``"known"``, ``"not made"`` or ``"broken"``, and the text that says why."""

    word: str
    text: str = ""
    number: int | None = None


#: All cells, in the order in which they were registered by ``law``.
CELLS: Final[list[Cell]] = []


def law(
    kind: str, name: str, forms: Iterable[str], *modules: str, costly: Container[str] = ()
) -> Callable[[Callable[[Draw, str], None]], None]:
    """Register a check, called with a ``Draw`` and a form, as one cell for each of ``forms``.

    Only a soak tries those of ``costly``.
    """

    def register(check: Callable[[Draw, str], None]) -> None:
        for form in forms:
            bound: Callable[[Draw], None] = lambda draw, form=form: check(draw, form)  # type: ignore[misc]  # noqa: E731
            CELLS.append(Cell(kind, form, name, bound, modules, form in costly))

    return register


def try_cell(cell: Cell, seed: int) -> Outcome:
    """Try a cell on the file of that seed."""
    with tempfile.TemporaryDirectory(prefix="spdl-differential-") as folder:
        draw = Draw(random.Random(f"{seed} {cell}"), Path(folder))
        try:
            cell.check(draw)
        except KnownExceptionError as known:
            return Outcome("known", str(known), known.number)
        except NotMadeError as reason:
            return Outcome("not made", str(reason))
        except (Exception, pytest.fail.Exception):  # of pytest.raises; not an Exception
            recipe = "\n".join(draw.recipe)
            return Outcome("broken", f"cell {cell}, seed {seed}\n{recipe}\n{traceback.format_exc()}")
    return Outcome("held")
