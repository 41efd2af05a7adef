"""How likely counts are if all cells are equally likely; no library is needed for that."""

import math
from collections.abc import Sequence

__all__ = ["chi_square"]


def chi_square(counts: Sequence[int]) -> float:
    """Probability of a chi-square as large as that of ``counts`` over equally likely cells.

    By the cube-root normal approximation (Wilson and Hilferty 1931, "The distribution of chi-square"), which is close
    for 2 degrees of freedom already and errs to the safe side in the far tail for the thresholds used here.
    """
    degrees = len(counts) - 1
    expected = sum(counts) / len(counts)
    statistic = sum((count - expected) ** 2 / expected for count in counts)
    if degrees == 1:
        return math.erfc(math.sqrt(statistic / 2))
    scale = 2 / (9 * degrees)
    z = ((statistic / degrees) ** (1 / 3) - (1 - scale)) / math.sqrt(scale)
    return math.erfc(z / math.sqrt(2)) / 2
