"""The format of a provenance log.

A log has one JSON object per line. A *header* describes the pipeline of a run: ``{"spdl": 2, "run": "5e1f09ab",
"seed": 0, "fingerprint": [...]}``. All other lines are batches, which name their run, because several may append in
turns::

    {"step": 12, "run": "5e1f09ab", "epoch": 0, "origin": {"all": [[384, 415], 417]}}

``origin`` is a position, ``{"all": [...]}`` for an aggregate, or ``{"part": k, "of": ...}`` for output ``k`` of a call
with several. In an aggregate, ``[384, 415]`` stands for all positions from 384 to before 415. A position of another
epoch or of another source than the first is ``{"at": 7, "epoch": 1, "source": 0}``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from spdl._random import ItemPart, ItemPosition

if TYPE_CHECKING:
    from spdl._random import ItemPlace

VERSION: Final = 2


def header_line(run: str, seed: int, fingerprint: list[Any]) -> bytes:
    return _line({"spdl": VERSION, "run": run, "seed": seed, "fingerprint": fingerprint})


def flat_line(step: int, run: str, epoch: int, positions: list[int]) -> bytes:
    """Return the line of a batch of positions of one epoch of the first source, which is the common case."""
    first = positions[0]
    stop = first + len(positions)
    text = f"[[{first},{stop}]]" if positions == [*range(first, stop)] else str(positions)
    return b'{"step":%d,"run":"%s","epoch":%d,"origin":{"all":%s}}\n' % (step, run.encode(), epoch, text.encode())


def batch_line(step: int, run: str, place: ItemPlace) -> bytes:
    """Return the line of any batch."""
    first: Any = place
    while not isinstance(first, ItemPosition):
        if not first:  # an aggregate of nothing
            first = ItemPosition(0, 0)
        else:
            first = first.of if isinstance(first, ItemPart) else first[0]
    return _line({"step": step, "run": run, "epoch": first.epoch, "origin": _plain(place, first.epoch)})


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _plain(place: ItemPlace, epoch: int) -> Any:
    if isinstance(place, ItemPosition):
        if place.epoch == epoch and place.source == 0:
            return place.position
        return {"at": place.position, "epoch": place.epoch, "source": place.source}
    if isinstance(place, ItemPart):
        return {"part": place.number, "of": _plain(place.of, epoch)}
    found: list[Any] = []
    for each in place:
        plain = _plain(each, epoch)
        last = found[-1] if found else None
        if type(plain) is int and type(last) is int and plain == last + 1:
            found[-1] = [last, plain + 1]
        elif type(plain) is int and type(last) is list and plain == last[1]:
            last[1] += 1
        else:
            found.append(plain)
    return {"all": found}


def read_place(origin: Any, epoch: int) -> ItemPlace:
    """Return the place that a line describes.

    Raises:
        ValueError: The line is damaged.
    """
    match origin:
        case int(position) if position >= 0:
            return ItemPosition(epoch, position)
        case {"at": int(position), "epoch": int(own), "source": int(source)}:
            return ItemPosition(own, position, source)
        case {"part": int(number), "of": of}:
            return ItemPart(read_place(of, epoch), number)
        case {"all": list(entries)}:
            found: list[ItemPlace] = []
            for entry in entries:
                match entry:
                    case [int(start), int(stop)]:
                        found += [ItemPosition(epoch, position) for position in range(start, stop)]
                    case _:
                        found.append(read_place(entry, epoch))
            return tuple(found)
    raise ValueError(f"no origin of a batch: {origin!r}")
