"""Patterns of paths in a store: ``train/*.tar``, ``**/*.jpg``."""

import re
from collections.abc import Sequence

from ._client import ObjectInfo

_SPECIAL = re.compile(r"[*?\[]")
# A special character that stands for itself, as glob.escape writes it.
_ESCAPED = re.compile(r"\[([*?\[])\]")


def fixed_prefix(pattern: str) -> str:
    """The folder that contains all matching paths, which a store can list. Empty for the root."""
    literal = ""
    position = 0
    while (match := _SPECIAL.search(pattern, position)) is not None:
        literal += pattern[position : match.start()]
        position = match.start()
        escaped = _ESCAPED.match(pattern, position)
        if escaped is None:
            break
        literal += escaped[1]
        position = escaped.end()
    else:
        literal += pattern[position:]
    return literal[: literal.rfind("/") + 1]


def matching(pattern: str, found: Sequence[ObjectInfo]) -> list[ObjectInfo]:
    """The objects that a pattern names: literally, if there are any, else those whose paths match.

    As much of the beginning of the pattern is literal as names an object or a folder.
    """
    parts = pattern.split("/")
    for count in range(len(parts), 0, -1):
        literal = "/".join(parts[:count])
        if _SPECIAL.search(literal) is None:
            break
        below = [info for info in found if info.path == literal or info.path.startswith(f"{literal}/")]
        if below:
            rest = "/".join(parts[count:])
            expression = compile_pattern(rest)
            start = len(literal) + 1
            if expression is None:
                return [info for info in below if not rest or info.path[start:].startswith(f"{rest.rstrip('/')}/")]
            return [info for info in below if expression.fullmatch(info.path, start)]
    expression = compile_pattern(pattern)
    return [info for info in found if expression is None or expression.fullmatch(info.path)]


def compile_pattern(pattern: str) -> "re.Pattern[str] | None":
    """An expression that whole paths match. ``None``: the pattern has no special character, so it names a folder.

    ``*`` matches within a name, ``**`` also ``/``, ``**/`` also nothing, ``?`` one character, ``[...]`` one of several.
    """
    if _SPECIAL.search(pattern) is None:
        return None
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("**/", position):
            parts.append("(?:.*/)?")
            position += 3
        elif pattern.startswith("**", position):
            parts.append(".*")
            position += 2
        elif (group := re.compile(r"\[(!?)([^\]]+)\]").match(pattern, position)) is not None:
            parts.append(f"[{'^/' if group[1] else ''}{_escaped(group[2])}]")
            position = group.end()
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[position]) or re.escape(pattern[position]))
            position += 1
    return re.compile("".join(parts), re.DOTALL)


def _escaped(characters: str) -> str:
    return characters.replace("\\", r"\\").replace("^", r"\^").replace("[", r"\[")
