"""What a worker does for one peer in one case: the interface between a benchmark and the shared worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Session", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """A case as the worker of a peer gets it.

    Attributes:
        case: The name of the case.
        data: The inputs of the case.
        settings: The peer's settings.
        num_threads: See ``Case``.
        per: See ``Case``.
    """

    case: str
    data: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    num_threads: int = 1
    per: int = 1


class Session:
    """One peer that has opened the inputs of one case.

    A benchmark derives from it in a module of its own, with the function ``open(adapter, task)``, which returns a
    session, or ``None`` if the peer cannot do the case; ``Contest.sessions`` is the name of that module. A session is
    opened once to compare outputs and again to be measured. The methods are called in the order in which they stand
    here, ``measure`` once per round.
    """

    def outputs(self) -> Mapping[str, Any]:
        """The output by name, as NumPy arrays or as lists of numbers; empty if there is nothing to compare.

        With lists the process does not import NumPy. Called only to compare outputs.
        """
        return {}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        """Choose the size of a turn so that it takes about ``seconds``, and warm up.

        Returns:
            The sizes, which are stored with the measurements.
        """
        return {}

    def measure(self) -> Mapping[str, float | str | Sequence[float]]:
        """One turn: named numbers. A sequence has several numbers of one turn; text says what the peer chose."""
        raise NotImplementedError

    def finish(self) -> Mapping[str, float]:
        """Numbers that are measured once, after all turns."""
        return {}

    def close(self) -> None:
        """Free everything. The session is not used again."""
