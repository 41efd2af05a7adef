"""Find images among files and folders, local and in object stores."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spdl._addresses import Address, parse_address, redacted, url_of
from spdl._cli._options import CommandError, ExitCode
from spdl.remote import RemoteError, RemoteNotFoundError, RemoteStore
from spdl.source._find import expand_names

LOADABLE = frozenset(
    {
        *(".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
        *(".avif", ".jp2", ".jxl", ".ppm", ".pgm", ".tga", ".heic", ".heif"),
    }
)
# Image formats that cannot be loaded: they are reported as ignored. Other files are skipped silently.
KNOWN = frozenset({".svg", ".psd", ".dng", ".cr2", ".nef", ".arw"})


@dataclass(frozen=True, slots=True)
class Found:
    """The images found under some paths."""

    images: tuple[str, ...]  #: in the order of the given paths, sorted by name within a folder
    unsupported: dict[str, int]  #: number of images of unsupported formats, by suffix


def find_images(paths: Iterable[Path | str]) -> Found:
    """Find images among files and below folders; text is a URL. Does not follow links to folders.

    Raises:
        CommandError: A path is missing or cannot be read (``PATH_UNREADABLE``), or there is no image (``NO_IMAGES``).
    """
    paths = tuple(each for path in paths for each in _expanded(path))
    images: list[str] = []
    unsupported: Counter[str] = Counter()

    def add(path: str, name: str, *, given: bool) -> None:
        suffix = os.path.splitext(name)[1].lower()
        if suffix in LOADABLE:
            images.append(path)
        elif suffix in KNOWN or given:
            unsupported[suffix] += 1

    for path in paths:
        if isinstance(path, str):
            for url, name, is_given in _find_remote(path):
                add(url, name, given=is_given)
        elif path.is_dir():
            for folder, subfolders, names in os.walk(path, onerror=_unreadable):
                subfolders.sort()
                for name in sorted(names):
                    add(os.path.join(folder, name), name, given=False)
        elif path.exists():
            add(os.fspath(path), path.name, given=True)
        else:
            raise CommandError(
                f"cannot load {redacted(str(path))!r}: there is no such file or folder; check the spelling",
                ExitCode.PATH_UNREADABLE,
            )
    if not images:
        where = ", ".join(repr(redacted(str(path))) for path in paths)
        other = f"; ignored: {describe_unsupported(unsupported)}" if unsupported else ""
        raise CommandError(
            f"no image found in {where}; looked for {', '.join(sorted(LOADABLE))}, with all subfolders{other}",
            ExitCode.NO_IMAGES,
        )
    return Found(tuple(images), dict(unsupported))


def _expanded(path: Path | str) -> list[Path | str]:
    """The files and folders that a local path stands for, if it does not exist itself."""
    if isinstance(path, str) or path.exists():
        return [path]
    try:
        return [Path(each) for each in expand_names(Address("", str(path)))]
    except FileNotFoundError:
        return [path]


def _find_remote(url: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the URLs and names of the objects at or below a URL, and whether each is the given URL itself.

    A signature is in the URL only. A web server cannot list its files, so its URL is used as given.
    """
    try:
        address = parse_address(url)
        if address.root.startswith(("http://", "https://")):
            for each in expand_names(address):
                yield address.exact or url_of(address.root, each), each, True
            return
        store = RemoteStore(address.root)
        for each in expand_names(address):
            if os.path.splitext(each)[1].lower() in LOADABLE | KNOWN and _is_object(store, each):
                yield store.url_of(each), each, True
            else:
                yield from ((store.url_of(info.path), info.path, False) for info in store.list(each))
    except (RemoteError, ValueError) as exc:
        raise CommandError(f"cannot load {redacted(url)!r}: {exc}", ExitCode.PATH_UNREADABLE) from exc


def _is_object(store: RemoteStore, path: str) -> bool:
    """Whether there is an object with this name. Raises ``RemoteNotFoundError`` unless the name is a pattern."""
    try:
        store.head(path)
    except RemoteNotFoundError:
        if set("*?[") & set(path):
            return False
        raise
    return True


def describe_unsupported(unsupported: dict[str, int]) -> str:
    """List the ignored images: ``12 .heic, 3 .svg``."""
    return ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in sorted(unsupported.items()))


def _unreadable(error: OSError) -> None:
    raise CommandError(
        f"cannot read folder {str(error.filename)!r}: {error.strerror}; check its permissions", ExitCode.PATH_UNREADABLE
    ) from error
