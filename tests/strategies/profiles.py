"""How many cases the laws are tried on: a fixed set in every run, others and more of them on request.

``SPDL_LAWS=explore`` draws new cases on every run; ``SPDL_LAWS_SCALE=10`` tries ten times as many.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

__all__ = ["cases"]

_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "phases": [Phase.generate, Phase.shrink],
    "suppress_health_check": list(HealthCheck),
}
settings.register_profile("ci", derandomize=True, **_COMMON)
settings.register_profile("explore", derandomize=False, **_COMMON)


def cases(number: int) -> Callable[[Any], Any]:
    """Decorate a property with how many cases it is tried on."""
    profile = settings.get_profile(os.environ.get("SPDL_LAWS", "ci"))
    return settings(profile, max_examples=max(1, int(number * float(os.environ.get("SPDL_LAWS_SCALE", "1")))))
