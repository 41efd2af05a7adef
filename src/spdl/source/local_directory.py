"""``LocalDirectory``: the files of a local folder as a source."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

from spdl._numbers import as_int

__all__ = ["LocalDirectory"]


class LocalDirectory:
    """The paths below ``root`` that match a pattern, sorted.

    The paths are listed once, by the constructor; files added later are not included. If the root does not exist or
    nothing matches the pattern, there are no paths: check ``len()``.

    Args:
        root: The folder.
        pattern: Pattern for :meth:`pathlib.Path.glob`: ``"*.wav"``, ``"**/*.jpg"``. It also matches folders.

    Raises:
        ValueError: The pattern is empty.
        NotImplementedError: The pattern is an absolute path.
    """

    def __init__(self, root: str | os.PathLike[str], pattern: str) -> None:
        self.root = Path(root)
        self.pattern = pattern
        self._paths = sorted(self.root.glob(pattern))

    def shuffle(self, seed: int) -> None:
        """Shuffle the paths by ``random.Random(seed).shuffle``.

        This shuffles the current order, so the result also depends on earlier shuffles. An iteration that has already
        begun keeps its order.

        Raises:
            TypeError: The seed is not an integer.
        """
        paths = self._paths.copy()
        random.Random(as_int("seed", seed)).shuffle(paths)
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._paths)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r}, {self.pattern!r})"
