"""The first generated file of each cell, and in a soak new ones; see the package."""

import pytest

from tests.differential.cells import Cell, try_cell
from tests.differential.collection import CELLS
from tests.support.soak import seeds


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=pytest.mark.soak(only=True) if cell.is_costly else (), id=str(cell)) for cell in CELLS],
)
def test_the_law_holds(cell: Cell, seed: int) -> None:
    """The file of this seed is read as independent readers read it."""
    if cell.missing:
        pytest.skip(f"not installed: {', '.join(cell.missing)} (extra: oracles)")
    outcome = try_cell(cell, seed)
    if outcome.word in ("known", "not made"):
        pytest.skip(outcome.text)
    assert outcome.word == "held", outcome.text
