"""Damaged video, audio and archives: a typed error or a result each."""

import pytest

from tests.support.media_mutations import WAYS, run, seeds, with_ogg_checks
from tests.support.soak import SEED, amount


@pytest.mark.soak
@pytest.mark.parametrize("kind", WAYS)
def test_damaged_files_load_or_fail_but_never_crash(kind: str) -> None:
    """The long form is ``python -m tests.support.media_mutations COUNT``."""
    count = amount(30, soak=400)
    outcomes = run(kind, count, SEED)
    assert outcomes.total() == count
    assert outcomes["slow"] == outcomes["no message"] == 0


@pytest.mark.parametrize("kind", ["ogg", "opus"])
def test_checksums_of_undamaged_pages_stay(kind: str) -> None:
    """They are computed as the encoder did."""
    assert with_ogg_checks(seeds()[kind]) == seeds()[kind]
