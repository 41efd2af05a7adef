"""The files of a folder as a source."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

from ._arguments import as_int

__all__ = ["LocalDirectory"]


class LocalDirectory:
    """The paths below ``root`` that match a pattern, sorted.

    They are looked up once, when this is made; files that come later are not seen. A root that does not exist, or a
    pattern that nothing matches, gives no paths: ask ``len()``.

    Args:
        root: The folder.
        pattern: As :meth:`pathlib.Path.glob` takes it: ``"*.wav"``, ``"**/*.jpg"``. Folders match as well as files.

    Raises:
        ValueError: The pattern is empty.
        NotImplementedError: The pattern is an absolute path.
    """

    def __init__(self, root: str | os.PathLike[str], pattern: str) -> None:
        self.root = Path(root)
        self.pattern = pattern
        self._paths = sorted(self.root.glob(pattern))

    def shuffle(self, seed: int) -> None:
        """Reorder the paths by ``random.Random(seed).shuffle``.

        What is reordered is the present order: the result depends on the shuffles before as well. An iteration that has
        begun keeps the order it began with.

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
