"""Damaged images of every kind, on every way: a typed outcome each, and no effect on the picture that comes after."""

import pytest

from tests.support.image_mutations import run, seeds


@pytest.mark.parametrize("kind", seeds())
def test_mutated_images_load_or_fail_but_never_crash(kind: str) -> None:
    """The long form is ``python -m tests.support.image_mutations COUNT``."""
    outcomes = run(60, kinds=[kind])
    assert outcomes.total() == 60
    assert outcomes["result"] < 60
