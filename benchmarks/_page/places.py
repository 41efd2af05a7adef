"""Generated parts of a Markdown document, between ``<!-- measured: NAME -->`` and the next ``<!-- end -->``."""

import re
from collections.abc import Mapping

__all__ = ["fill", "names_in"]

_PLACES = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def names_in(text: str) -> list[str]:
    """The names of the generated parts, in order."""
    return [match[2] for match in _PLACES.finditer(text)]


def fill(text: str, parts: Mapping[str, str]) -> str:
    """The text with each part filled in.

    Raises:
        ValueError: The markers in the text and the given parts do not match.
    """
    named = names_in(text)
    if sorted(named) != sorted(parts):
        raise ValueError(f"the text has places for {sorted(named)}, and there are parts for {sorted(parts)}")
    return _PLACES.sub(lambda match: f"{match[1]}\n{parts[match[2]]}\n\n{match[3]}", text)
