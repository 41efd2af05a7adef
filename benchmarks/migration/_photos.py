"""Which photograph is which sample. Imports nothing of the loaders."""

from dataclasses import dataclass
from pathlib import Path

#: Longer than any measurement, which stops when it has enough.
ENDLESS = 10_000_000


@dataclass(frozen=True, slots=True)
class Photos:
    """Files in one folder per class, repeated up to ``num_samples``."""

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
