"""``ImageNet``: ImageNet (ILSVRC2012) as a source of paths and class indices."""

import os
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from .local_directory import LocalDirectory

__all__ = ["ImageNet", "get_mappings", "parse_wnid"]

_SPLITS = ("train", "val")


class ImageNet:
    """The images of one split, in the folder layout of ILSVRC2012: ``<split>/<WordNet id>/<name>.JPEG``.

    Yields pairs of path and class index, sorted by path until ``shuffle``. The files are listed once, by the
    constructor.

    Args:
        root: The folder that contains ``train`` and ``val``.
        split: ``"train"`` or ``"val"``.

    Raises:
        ValueError: ``split`` is neither of the two. While iterating: a path below ``root`` has no WordNet id, or an id
            that is not one of the 1000 of ILSVRC2012.
    """

    def __init__(self, root: str | os.PathLike[str], split: str = "val") -> None:
        if split not in _SPLITS:
            raise ValueError(f"split must be 'train' or 'val', got {split!r}")
        self._split = split
        self._directory = LocalDirectory(root, f"{split}/*/*.JPEG")

    def shuffle(self, seed: int) -> None:
        """Shuffle the paths, as :meth:`LocalDirectory.shuffle <spdl.source.local_directory.LocalDirectory.shuffle>`."""
        self._directory.shuffle(seed=seed)

    def __len__(self) -> int:
        return len(self._directory)

    def __iter__(self) -> Iterator[tuple[Path, int]]:
        class_of = get_mappings()
        root = self._directory.root
        for path in self._directory:
            # Not the whole path: the folder of the dataset may also have such a name.
            wnid = parse_wnid(str(path.relative_to(root)))
            if wnid not in class_of:
                raise ValueError(f"{str(path)!r} has no class: {wnid} is none of the 1000 ids of ILSVRC2012")
            yield path, class_of[wnid]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._directory.root)!r}, split={self._split!r})"


def parse_wnid(s: str) -> str:
    """Get the first WordNet id in a text: ``n`` and 8 digits.

    Raises:
        ValueError: The text has no WordNet id.
    """
    match = re.search(r"n[0-9]{8}", s)
    if match is None:
        raise ValueError(f"{s!r} has no WordNet id ('n' and 8 digits, such as 'n01440764')")
    return match[0]


def get_mappings() -> dict[str, int]:
    """Get the class index, ``0 .. 999``, of each WordNet id of ILSVRC2012.

    The ids are numbered in sorted order, as in the models published for this dataset.

    Returns:
        A new ``dict``.
    """
    return {wnid: index for index, wnid in enumerate(_wnids())}


@cache
def _wnids() -> tuple[str, ...]:
    """The synsets of the ILSVRC2012 classification task, sorted (Russakovsky et al., "ImageNet Large Scale Visual
    Recognition Challenge", IJCV 2015)."""
    return tuple((files(__package__) / "imagenet_wnids.txt").read_text(encoding="ascii").split())
