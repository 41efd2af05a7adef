"""Merges byte ranges that are close to each other, so that one request reads them all."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Span:
    """A range to request, and the wanted ranges in it.

    Attributes:
        members: Indices of the wanted ranges.
    """

    start: int
    stop: int
    members: list[int] = field(default_factory=list)


def coalesce(ranges: Sequence[tuple[int, int]], *, gap: int, largest: int) -> list[Span]:
    """Merge ranges ``(offset, length)`` whose distance is at most ``gap``.

    Each range is in exactly one span, except empty ones, which are in none. Ranges may overlap and come in any order.

    Args:
        gap: Most unneeded bytes to read between two ranges.
        largest: Most bytes of a span of several ranges, which bounds the memory for a request.
    """
    spans: list[Span] = []
    order = sorted((index for index, (_, length) in enumerate(ranges) if length > 0), key=lambda index: ranges[index])
    for index in order:
        start, stop = ranges[index][0], sum(ranges[index])
        last = spans[-1] if spans else None
        if last is not None and start - last.stop <= gap and max(stop, last.stop) - last.start <= largest:
            last.stop = max(last.stop, stop)
            last.members.append(index)
        else:
            spans.append(Span(start, stop, [index]))
    return spans
