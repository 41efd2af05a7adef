"""The photographs that several benchmarks load."""

import subprocess
import sys

from .environments import REPOSITORY

__all__ = ["make_photos"]


def make_photos(kind: str, count: int) -> list[str]:
    """Paths of photographs by ``scripts/make_photos.py``, which are made if necessary."""
    folder = REPOSITORY / ".cache" / "bench" / f"photos-{kind}-{count}"
    command = [sys.executable, str(REPOSITORY / "scripts" / "make_photos.py")]
    subprocess.run([*command, "--kind", kind, "--count", str(count), str(folder)], check=True, stdout=sys.stderr)
    return sorted(map(str, folder.rglob("*.jpg")))
