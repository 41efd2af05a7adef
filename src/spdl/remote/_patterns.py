"""Patterns of paths in a store: ``train/*.tar``, ``**/*.jpg``."""

import re

__all__ = ["compile_pattern", "fixed_prefix"]

_SPECIAL = re.compile(r"[*?\[]")


def fixed_prefix(pattern: str) -> str:
    """The folder that contains all matching paths, which a store can list. Empty for the root."""
    match = _SPECIAL.search(pattern)
    literal = pattern if match is None else pattern[: match.start()]
    return literal[: literal.rfind("/") + 1]


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
