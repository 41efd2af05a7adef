"""The first generated file of each cell, and in a soak new ones; see the package."""

from typing import Any

import pytest

from tests.differential.cells import Cell, try_cell
from tests.differential.collection import CELLS
from tests.support.soak import seeds


def _parameter(cell: Cell) -> Any:
    # The mark is here, as one of the function would be the closer one.
    return pytest.param(cell, marks=pytest.mark.soak(only=cell.is_costly), id=str(cell))


@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("cell", list(map(_parameter, CELLS)))
def test_the_law_holds(cell: Cell, seed: int) -> None:
    """The file of this seed is read as independent readers read it."""
    if cell.missing:
        pytest.skip(f"not installed: {', '.join(cell.missing)} (extra: oracles)")
    outcome = try_cell(cell, seed)
    if outcome.word in ("known", "not made"):
        pytest.skip(outcome.text)
    assert outcome.word == "held", outcome.text
