"""The amount of testing: small in ``make test``; larger in ``make soak``, with new inputs in each round.

``scripts/soak`` sets ``SPDL_SOAK`` to the seed of its round. Seed 0 gives the fixed inputs; any other seed gives other
inputs, always the same ones for that seed.

A test joins the soak by ``@pytest.mark.soak``, and is then part of both; ``@pytest.mark.soak(only=True)`` takes it out
of ``make test``. Hypothesis tests are part of both without a mark: ``tests.strategies.profiles.cases`` sets their
number of cases. Other tests get theirs from ``amount`` and ``seeds``.
"""

import os
import time
from typing import Final

import pytest

__all__ = ["SEED", "amount", "is_over", "is_soaking", "seeds", "select"]

_VARIABLE: Final = "SPDL_SOAK"
#: The seed of the round; 0 outside a soak.
SEED: Final = int(os.environ.get(_VARIABLE) or 0)
#: The time, by ``time.monotonic``, after which no further test begins.
_END: Final = time.monotonic() + float(os.environ.get("SPDL_SOAK_SECONDS") or "inf")


def is_soaking() -> bool:
    """Whether this is a round of ``make soak``."""
    return bool(os.environ.get(_VARIABLE))


def is_over() -> bool:
    """Whether the time is up, so that no further test should begin."""
    return time.monotonic() >= _END


def amount(test: int, soak: int) -> int:
    """The number of tries: the first number in ``make test``, the second in ``make soak``."""
    return soak if is_soaking() else test


def seeds(test: int, soak: int) -> range:
    """That many seeds, for ``parametrize``: from 0 on; in later rounds of a soak, new seeds."""
    first = SEED * 1000
    return range(first, first + amount(test, soak))


def select(items: list[pytest.Item]) -> list[pytest.Item]:
    """Remove from ``items`` those that are not part of this run, and return them."""
    left_out = [item for item in items if not _is_wanted(item)]
    if left_out:
        items[:] = [item for item in items if _is_wanted(item)]
    return left_out


def _is_wanted(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("soak")
    if is_soaking():
        return marker is not None or getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return marker is None or not marker.kwargs.get("only", False)
