"""Expand names with braces: ``shard-{000000..000099}.tar``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


def expand_braces(pattern: str) -> list[str]:
    """Return the names that a pattern with braces stands for, in order.

    ``{000..012}`` counts, with as many digits as written; ``{0..8..2}`` counts in steps; ``{train,val}`` lists
    alternatives. Several braces give all combinations. Braces with other contents stay unchanged.
    """
    parts: list[list[str]] = []
    place = 0
    for match in _BRACES.finditer(pattern):
        parts += [[pattern[place : match.start()]], list(_choices(match[0], match[1]))]
        place = match.end()
    parts.append([pattern[place:]])
    return ["".join(chosen) for chosen in product(*parts)]


def _choices(whole: str, inside: str) -> Iterator[str]:
    counted = _RANGE.fullmatch(inside)
    if counted is None:
        yield from inside.split(",") if "," in inside else [whole]
        return
    first, last = int(counted[1]), int(counted[2])
    step = abs(int(counted[3] or 1)) or 1
    is_padded = any(len(text.lstrip("-")) > 1 and text.lstrip("-")[0] == "0" for text in (counted[1], counted[2]))
    width = max(len(counted[1]), len(counted[2])) if is_padded else 0
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    for number in numbers:
        yield f"{number:0{width}}"
