"""The text form of states: one JSON document under one key of a flat dictionary.

A state is ``{"spdl": "<json>"}``. So it survives all checkpoint formats: ``json``, ``pickle``, ``torch.save``, and
torch's distributed checkpoint, which flattens dictionaries and would split a nested one into keys. The text is compact
and ASCII, with sorted keys, so equal documents have equal texts.

Two kinds of documents are checked completely, because other modules calculate with them: that of a pipeline, and the
gathered one of all ranks (:func:`spdl.resume.gather`). Unknown keys are kept: they do not change the meaning of the
others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from ._ranges import RangeChain, Ranges
from ._values import ResumeError

#: The version of the documents written here. Others are refused.
VERSION: Final = 1
#: The only key of a state.
KEY: Final = "spdl"

_RANGES: Final = "[[start, stop], ...], ascending and disjoint, or distances for ranges of one"
_SOURCE_KINDS: Final = ("indexed", "stateful", "iterable")


def encode(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the state of a document: ``{"spdl": "<json>"}``.

    Args:
        document: JSON values with string keys, including ``"kind"``. ``"version"`` is added.

    Raises:
        ResumeError: A value cannot be written as JSON; NaN and infinity cannot.
    """
    try:
        text = json.dumps({**document, "version": VERSION}, separators=(",", ":"), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ResumeError(
            f"cannot write the state of a {document.get('kind', 'document')} as JSON: {exc}. The state_dict() of a "
            "source must return numbers, text, None, lists, and dictionaries with text as keys"
        ) from exc
    return {KEY: text}


def decode(state: object, what: str) -> dict[str, Any]:
    """Check a state and return its document.

    Args:
        what: What it will be used for, for messages: ``"the pipeline"``, ``"rank 3"``.

    Raises:
        ResumeError: It is not such a dictionary; its text is truncated or not JSON; it has another version; a key is
            missing or has an invalid value.
    """
    if not isinstance(state, Mapping):
        raise ResumeError(
            f"cannot read the state of {what}: a state is a dictionary as state_dict() returns it, got an object of "
            f"type {type(state).__qualname__}"
        )
    text = state.get(KEY)
    if text is None:
        found = ", ".join(repr(key) for key in list(state)[:5]) or "no keys"
        raise ResumeError(
            f"cannot read the state of {what}: a dictionary with the key {KEY!r} was expected, got one with {found}. "
            "It may be the state of another library, or the whole checkpoint that the state is a part of"
        )
    if not isinstance(text, str):
        raise ResumeError(
            f"cannot read the state of {what}: the value of {KEY!r} must be text, got an object of type "
            f"{type(text).__qualname__}"
        )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ResumeError(
            f"cannot read the state of {what}: its {len(text)} characters are not a JSON document ({exc}). It may have "
            "been truncated; use an older one"
        ) from exc
    _check_document(document, what)
    checked: dict[str, Any] = document
    return checked


def describe_difference(saved: list[Any], own: list[Any]) -> str | None:
    """Return where two fingerprints differ, in words; ``None`` if they are equal.

    A fingerprint has one entry for each stage, in order: ``["pipe", "decode"]``, ``["aggregate", 32, true]``.
    """
    # Convert as JSON does: tuples become lists.
    own = json.loads(json.dumps(own))
    for number, (one, other) in enumerate(zip(saved, own, strict=False)):
        if one != other:
            return f"stage {number} was {_show(one)} and is {_show(other)}"
    if len(saved) > len(own):
        return f"stage {len(own)} was {_show(saved[len(own)])} and is not there"
    if len(saved) < len(own):
        return f"stage {len(saved)} is {_show(own[len(saved)])} and was not there"
    return None


def _show(entry: object) -> str:
    parts = entry if isinstance(entry, list) else [entry]
    return " ".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


def _check_document(document: Any, what: str) -> None:
    check = _Check(what)
    check.that(isinstance(document, dict), "", "a JSON object", document)
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        has = "no version" if version is None else f"version {_shorten(version)}"
        raise ResumeError(
            f"cannot read the state of {what}: it has {has}, and this release of SPDL reads version {VERSION}. Load it "
            "with the release that saved it"
        )
    check.key(document, "kind", "", _is_text, "text")
    if document["kind"] == "pipeline":
        _check_pipeline(document, check, "")
    elif document["kind"] == "loader" and "sources" in document:
        _check_loader(document, check, "")
    elif document["kind"] == "gathered":
        check.key(
            document, "states", "", lambda found: _is_list(found) and found != [], "a list of documents, one per rank"
        )
        for rank, each in enumerate(document["states"]):
            where = f"states[{rank}]."
            check.that(isinstance(each, dict), where[:-1], "a JSON object", each)
            check.key(each, "kind", where, lambda kind: _is_text(kind) and kind != "gathered", "text, not 'gathered'")
            if each["kind"] == "pipeline":
                _check_pipeline(each, check, where)
            elif each["kind"] == "loader" and "sources" in each:
                _check_loader(each, check, where)
        _check_alike(document["states"], check)


def _check_alike(states: list[dict[str, Any]], check: _Check) -> None:
    """Check what gathered states have in common, as far as a distribution over other ranks depends on it."""
    first = states[0]
    for rank, each in enumerate(states):
        where = f"states[{rank}]."
        check.that(each["kind"] == first["kind"], f"{where}kind", f"{first['kind']!r}, as that of rank 0", each["kind"])
        if "sources" not in each or "sources" not in first:
            continue
        num = len(first["sources"])
        check.that(
            len(each["sources"]) == num, f"{where}sources", f"a list of {num}, as that of rank 0", each["sources"]
        )
        for number, (own, other) in enumerate(zip(each["sources"], first["sources"], strict=True)):
            for key in ("kind", "length", "world"):
                place = f"{where}sources[{number}].{key}"
                check.that(own[key] == other[key], place, f"{other[key]!r}, as that of rank 0", own[key])


def _check_pipeline(document: dict[str, Any], check: _Check, where: str) -> None:
    check.key(document, "fingerprint", where, _is_list, "a list")
    check.key(document, "approximate", where, lambda found: _is_list(found) and all(map(_is_text, found)), "texts")
    check.key(document, "sources", where, _is_list, "a list")
    for number, source in enumerate(document["sources"]):
        _check_source(source, check, f"{where}sources[{number}].")


def _check_loader(document: dict[str, Any], check: _Check, where: str) -> None:
    check.key(document, "fingerprint", where, _is_list, "a list")
    check.key(document, "epoch", where, lambda epoch: epoch is None or isinstance(epoch, dict), "an object, or null")
    check.key(document, "sources", where, lambda sources: _is_list(sources) and len(sources) == 1, "a list of one")
    _check_source(document["sources"][0], check, f"{where}sources[0].")


def _check_source(source: Any, check: _Check, where: str) -> None:
    check.that(isinstance(source, dict), where[:-1], "a JSON object", source)
    check.key(source, "kind", where, lambda kind: kind in _SOURCE_KINDS, f"one of {', '.join(_SOURCE_KINDS)}")
    check.key(source, "world", where, lambda world: _is_count(world) and world != 0, "an integer >= 1")
    world = source["world"]
    check.key(source, "rank", where, lambda rank: _is_count(rank) and rank < world, f"an integer in [0, {world})")
    check.key(source, "length", where, lambda length: length is None or _is_count(length), "an integer >= 0, or null")
    check.key(source, "lockstep", where, _is_bool, "true or false")
    check.key(source, "ended", where, _is_bool, "true or false")
    check.key(source, "epochs", where, _is_list, "a list")
    last = None
    for number, epoch in enumerate(source["epochs"]):
        name = f"{where}epochs[{number}]."
        _check_epoch(epoch, check, name)
        check.that(last is None or epoch["epoch"] > last, f"{name}epoch", f"an integer > {last}", epoch["epoch"])
        last = epoch["epoch"]


def _check_epoch(epoch: Any, check: _Check, where: str) -> None:
    check.that(isinstance(epoch, dict), where[:-1], "a JSON object", epoch)
    check.key(epoch, "epoch", where, _is_integer, "an integer")
    if "todo" in epoch:
        check.parsed(epoch, "todo", where, RangeChain.from_json, "[[start, stop, stride], ...], ascending")
    else:
        check.key(epoch, "high", where, _is_count, "an integer >= 0")
        check.key(epoch, "holes", where, _is_list, "a list")
    high = epoch.get("high", 0)
    check.that(_is_count(high), f"{where}high", "an integer >= 0", high)
    if "holes" in epoch:
        holes = check.parsed(epoch, "holes", where, Ranges.from_json, _RANGES)
        check.that(holes.stop <= high, f"{where}holes", f"positions below {high}", epoch["holes"])
    iterator = epoch.get("iterator")
    check.that(iterator is None or isinstance(iterator, dict), f"{where}iterator", "a JSON object, or null", iterator)
    if "dropped" in epoch:
        check.parsed(epoch, "dropped", where, Ranges.from_json, _RANGES)
    for name in ("parts", "dropped_parts"):
        parts = epoch.get(name, {})
        check.that(isinstance(parts, dict), where + name, "a JSON object", parts)
        for key, ranges in parts.items():
            is_path = all(number.isdecimal() and number.isascii() for number in key.split("."))
            check.that(is_path, where + name, "keys that are numbers joined by dots", key)
            check.parsed({key: ranges}, key, f"{where}{name}.", Ranges.from_json, "[[start, stop], ...]")


class _Check:
    """Raises errors that name the place in the document, what is accepted there, and the actual value."""

    def __init__(self, what: str) -> None:
        self._what = what

    def that(self, is_good: bool, where: str, wanted: str, value: object) -> None:
        if not is_good:
            raise self._error(where, wanted, _shorten(value))

    def key(self, of: dict[str, Any], key: str, where: str, is_good: Callable[[Any], bool], wanted: str) -> None:
        if key not in of:
            raise self._error(where + key, wanted, "nothing")
        self.that(is_good(of[key]), where + key, wanted, of[key])

    def parsed(self, of: dict[str, Any], key: str, where: str, parse: Callable[[Any], Any], wanted: str) -> Any:
        try:
            return parse(of[key])
        except ValueError:
            raise self._error(where + key, wanted, _shorten(of[key])) from None

    def _error(self, where: str, wanted: str, got: str) -> ResumeError:
        place = f"its {where!r}" if where else "it"
        return ResumeError(
            f"cannot read the state of {self._what}: {place} must be {wanted}, got {got}. The state is damaged or was "
            "not made by SPDL; use an older one"
        )


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_integer(value: object) -> bool:
    """Whether it is a number that positions and epochs can have: Python's ranges and sequences go no further."""
    return isinstance(value, int) and not isinstance(value, bool) and -sys.maxsize <= value <= sys.maxsize


def _is_count(value: object) -> bool:
    return _is_integer(value) and value >= 0  # type: ignore[operator]  # an integer, as just checked


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)
