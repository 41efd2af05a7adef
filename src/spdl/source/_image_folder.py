"""``ImageFolder``: images in one folder per class, as a source that can be indexed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import escape
from typing import Final, Generic, TypeVar, overload

from spdl._addresses import redacted

from ._find import place_of
from ._stores import RangeStore

T = TypeVar("T")

#: Default extensions of images.
IMAGE_EXTENSIONS: Final = (
    ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".heic", ".jxl",
)  # fmt: skip


class ImageFolder(Sequence[tuple[T, int]], Generic[T]):
    """The images in ``root/<class>/`` and its subfolders, as pairs of path and class index.

    Classes are the names of the folders, sorted, and images are sorted by folder and name, as in torchvision's
    ``ImageFolder``. Names that begin with a dot are ignored. The folders are listed once, by the constructor. It works
    as a source, and as the dataset of ``get_pytorch_dataloader``; for the latter, ``load`` converts each path to the
    sample to collate.

    .. code-block:: python

        dataset = ImageFolder("imagenet/train", load=decode)
        sampler = DistributedKeyedSampler(len(dataset), rank=rank, world_size=world_size)
        loader = get_pytorch_dataloader(dataset, 64, sampler=sampler, num_workers=8, workers="thread")

    Args:
        root: The folder that contains one folder per class: a local path; with ``store``, a path in the store; or a
            URL, such as ``s3://bucket/train``. With a URL, the paths of images are URLs too, which ``spdl.io`` reads.
        store: The store that has the folder: an object with ``list(pattern)``, such as ``spdl.remote.RemoteStore``.
            The paths of images are then paths in the store, and ``load`` must read them. ``None``: local files.
        load: Function that converts a path to the first element of its pair. ``None``: the path itself.
        extensions: Extensions of images, in upper or lower case; other files are ignored. ``None``: the usual ones.
        allow_empty: Whether to keep classes without images. Their indices are then counted too.

    Raises:
        FileNotFoundError: The folder does not exist, or contains no folders or no images.
        spdl.remote.RemoteError: The root is a URL and cannot be listed.
        ValueError: A class has no images and ``allow_empty`` is not set, or there are broken links. The message lists
            them.
    """

    @overload
    def __init__(
        self: ImageFolder[str],
        root: str | os.PathLike[str],
        *,
        store: RangeStore | None = None,
        load: None = None,
        extensions: Iterable[str] | None = None,
        allow_empty: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        store: RangeStore | None = None,
        load: Callable[[str], T],
        extensions: Iterable[str] | None = None,
        allow_empty: bool = False,
    ) -> None: ...

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        store: RangeStore | None = None,
        load: Callable[[str], T] | None = None,
        extensions: Iterable[str] | None = None,
        allow_empty: bool = False,
    ) -> None:
        if isinstance(root, RangeStore):
            raise TypeError(f"root must be a folder, got {root!r}; give the store by name: ImageFolder('', store=...)")
        self._root = redacted(os.fspath(root))
        self._load = load
        self._extensions = _as_extensions(extensions)
        if store is not None:
            found, broken = _find_stored(os.fspath(root), self._extensions, store)
        else:
            remote, (address,) = place_of([root])
            if remote is None:
                found, broken = _find(address.path, self._extensions)
            else:
                found, broken = _find_stored(address.path, self._extensions, remote)
                found = {name: [remote.url_of(path) for path in paths] for name, paths in found.items()}
        if broken:
            raise ValueError(
                f"{len(broken)} links below {self._root!r} are broken: {_some(broken)}. Remove them, or mount their "
                "targets"
            )
        if not any(found.values()):
            has = "no folders" if not found else f"no images in its {len(found)} folders"
            raise FileNotFoundError(
                f"{self._root!r} has {has}: there must be a folder for each class, with files that end in "
                f"{', '.join(self._extensions)}"
            )
        empty = sorted(name for name, paths in found.items() if not paths)
        if empty and not allow_empty:
            raise ValueError(
                f"{len(empty)} of {len(found)} classes in {self._root!r} have no images (files that end in "
                f"{', '.join(self._extensions)}): {_some(empty)}. allow_empty=True keeps them as classes"
            )
        self._classes = sorted(found)
        self._samples = [
            (path, number)
            for number, name in enumerate(self._classes)
            for path in sorted(found[name], key=os.path.split)
        ]

    @property
    def root(self) -> str:
        """The folder, as given."""
        return self._root

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by index."""
        return list(self._classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The index of each class."""
        return {name: number for number, name in enumerate(self._classes)}

    @property
    def samples(self) -> list[tuple[str, int]]:
        """The path and class index of each image."""
        return list(self._samples)

    @property
    def targets(self) -> list[int]:
        """The class index of each image."""
        return [number for _, number in self._samples]

    @property
    def sizes(self) -> list[int]:
        """The number of images of each class, by class index."""
        counts = Counter(self.targets)
        return [counts[number] for number in range(len(self._classes))]

    def weights(self) -> list[float]:
        """Return a weight per image that makes all classes equally likely: one over the size of the image's class.

        For ``DistributedRandomSampler(len(dataset), weights=dataset.weights(), num_draws=...)``.
        """
        of_class = [1 / size if size else 0.0 for size in self.sizes]
        return [of_class[number] for _, number in self._samples]

    def __len__(self) -> int:
        return len(self._samples)

    @overload
    def __getitem__(self, index: int) -> tuple[T, int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[T, int]]: ...

    def __getitem__(self, index: int | slice) -> tuple[T, int] | list[tuple[T, int]]:
        if isinstance(index, slice):
            return [self._pair(*sample) for sample in self._samples[index]]
        return self._pair(*self._samples[index])

    def __iter__(self) -> Iterator[tuple[T, int]]:
        return (self._pair(*sample) for sample in self._samples)

    def _pair(self, path: str, number: int) -> tuple[T, int]:
        # If there is no `load`, T is str.
        return (path if self._load is None else self._load(path)), number  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._root!r}: {len(self)} images in {len(self._classes)} classes)"


def _as_extensions(extensions: Iterable[str] | None) -> tuple[str, ...]:
    if extensions is None:
        return IMAGE_EXTENSIONS
    given = [extensions] if isinstance(extensions, str) else list(extensions)
    if not given or not all(isinstance(each, str) and each.strip(".") for each in given):
        raise ValueError(f"extensions must be names such as '.jpg', got {extensions!r}")
    return tuple("." + each.lower().lstrip(".") for each in given)


def _find(root: str, extensions: tuple[str, ...]) -> tuple[dict[str, list[str]], list[str]]:
    """The images of each class, and the broken links. Other links are followed, once per folder and class."""
    found: dict[str, list[str]] = {}
    broken: list[str] = []
    with os.scandir(root) as entries:
        folders = sorted(
            entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry, broken)
        )
    for name in folders:
        own = found[name] = []
        seen: set[tuple[int, int]] = set()
        todo = [os.path.join(root, name)]
        while todo:
            folder = todo.pop()
            facts = os.stat(folder)
            if (facts.st_dev, facts.st_ino) in seen:  # a link to a folder above
                continue
            seen.add((facts.st_dev, facts.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if _is_folder(entry, broken):
                        todo.append(entry.path)
                    elif entry.name.lower().endswith(extensions):
                        own.append(entry.path)
    broken_images = set(broken)
    return {name: [path for path in own if path not in broken_images] for name, own in found.items()}, broken


def _is_folder(entry: os.DirEntry[str], broken: list[str]) -> bool:
    if entry.is_dir():
        return True
    if entry.is_symlink() and not os.path.exists(entry.path):
        broken.append(entry.path)
    return False


def _find_stored(root: str, extensions: tuple[str, ...], store: RangeStore) -> tuple[dict[str, list[str]], list[str]]:
    """The images of each class in a store. Stores have no links and no empty folders."""
    prefix = root.rstrip("/") + "/" if root.strip("/") else ""
    found: dict[str, list[str]] = {}
    for info in store.list(f"{escape(prefix)}**/*"):
        name, slash, rest = info.path.removeprefix(prefix).partition("/")
        if slash and not any(part.startswith(".") for part in (name, *rest.split("/"))):
            own = found.setdefault(name, [])
            if info.path.lower().endswith(extensions):
                own.append(info.path)
    return found, []


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
