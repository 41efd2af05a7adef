"""Which photograph is which sample. Imports nothing of the loaders."""

from dataclasses import dataclass
from pathlib import Path

#: Longer than anything that is measured: whoever measures stops when there is enough.
ENDLESS = 10_000_000


@dataclass(frozen=True, slots=True)
class Photos:
    """Files in folders, a folder for each class, again and again until there are ``num_samples``."""

    paths: tuple[str, ...]
    labels: tuple[int, ...]
    num_samples: int = ENDLESS

    @classmethod
    def of(cls, paths: list[str], num_samples: int = ENDLESS) -> "Photos":
        folders = sorted({Path(path).parent for path in paths})
        labels = tuple(folders.index(Path(path).parent) for path in paths)
        return cls(tuple(paths), labels, num_samples)

    def __len__(self) -> int:
        return self.num_samples

    def sample(self, index: int) -> tuple[str, int]:
        """Path and label."""
        place = index % len(self.paths)
        return self.paths[place], self.labels[place]
