"""The number of cases of a law: few fixed ones in ``make test``, many new ones in ``make soak``."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

from tests.support.soak import SEED, is_soaking

__all__ = ["cases"]

#: The share of a law's cases that ``make test`` tries, and the minimum for laws that have that many.
_SHARE = 1 / 4
_LEAST = 15

settings.register_profile(
    "spdl",
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
    derandomize=SEED == 0,
)
settings.load_profile("spdl")


def cases(number: int) -> Callable[[Any], Any]:
    """Decorate a property with its number of cases in a round of ``make soak``; ``make test`` tries a quarter."""
    tried = number if is_soaking() else min(number, max(_LEAST, round(number * _SHARE)))

    def decorate(law: Any) -> Any:
        law.num_cases = tried
        law = settings(max_examples=tried)(law)
        return seed(SEED)(law) if SEED else law

    return decorate
