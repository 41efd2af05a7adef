"""Find images among files and folders, local and in object stores."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spdl._cli._exits import CommandError, ExitCode
from spdl.remote import RemoteError, RemoteNotFoundError, RemoteStore

__all__ = ["Found", "find_images"]

LOADABLE = frozenset(
    {
        ".jpg",
        ".jpeg",
        ".png",
        ".webp",
        ".gif",
        ".bmp",
        ".tif",
        ".tiff",
        ".avif",
        ".jp2",
        ".jxl",
        ".ppm",
        ".pgm",
        ".tga",
        ".heic",
        ".heif",
    }
)
# Image formats that cannot be loaded: they are reported as ignored. Other files are skipped silently.
KNOWN = frozenset({".svg", ".psd", ".dng", ".cr2", ".nef", ".arw"})


@dataclass(frozen=True, slots=True)
class Found:
    """The images found under some paths.

    Attributes:
        images: Images to load, in the order of the given paths, sorted by name within a folder.
        unsupported: Number of images of unsupported formats, by suffix.
    """

    images: tuple[str, ...]
    unsupported: dict[str, int]


def find_images(paths: Iterable[Path | str]) -> Found:
    """Find images among files and below folders; text is a URL. Does not follow links to folders.

    Raises:
        CommandError: A path is missing or cannot be read (``PATH_UNREADABLE``), or there is no image (``NO_IMAGES``).
    """
    paths = tuple(paths)
    images: list[str] = []
    unsupported: Counter[str] = Counter()

    def add(path: str, suffix: str, *, given: bool) -> None:
        if suffix in LOADABLE:
            images.append(path)
        elif suffix in KNOWN or given:
            unsupported[suffix] += 1

    for path in paths:
        if isinstance(path, str):
            for url, is_given in _find_remote(path):
                add(url, os.path.splitext(url)[1].lower(), given=is_given)
        elif path.is_dir():
            for folder, subfolders, names in os.walk(path, onerror=_unreadable):
                subfolders.sort()
                for name in sorted(names):
                    add(os.path.join(folder, name), os.path.splitext(name)[1].lower(), given=False)
        elif path.exists():
            add(os.fspath(path), path.suffix.lower(), given=True)
        else:
            raise CommandError(
                f"cannot load {str(path)!r}: there is no such file or folder; check the spelling",
                ExitCode.PATH_UNREADABLE,
            )
    if not images:
        where = ", ".join(repr(str(path)) for path in paths)
        other = f"; ignored: {describe_unsupported(unsupported)}" if unsupported else ""
        raise CommandError(
            f"no image found in {where}; looked for {', '.join(sorted(LOADABLE))}, with all subfolders{other}",
            ExitCode.NO_IMAGES,
        )
    return Found(tuple(images), dict(unsupported))


def _find_remote(url: str) -> Iterator[tuple[str, bool]]:
    """Yield the URLs of the objects at or below a URL, and whether each is the given URL itself.

    A web server cannot list its files, so its URL is used as given.
    """
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    if scheme in ("http", "https"):
        yield url, True
        return
    store = RemoteStore(f"{scheme}://{bucket}/")
    try:
        if os.path.splitext(path)[1].lower() in LOADABLE | KNOWN and not set("*?[") & set(path):
            store.head(path)
            yield url, True
            return
        found = store.list(path)
    except RemoteNotFoundError as exc:
        raise CommandError(f"cannot load {url!r}: {exc}", ExitCode.PATH_UNREADABLE) from exc
    except (RemoteError, ValueError) as exc:
        raise CommandError(f"cannot load {url!r}: {exc}", ExitCode.PATH_UNREADABLE) from exc
    for info in found:
        yield store.url_of(info.path), False


def describe_unsupported(unsupported: dict[str, int]) -> str:
    """List the ignored images: ``12 .heic, 3 .svg``."""
    return ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in sorted(unsupported.items()))


def _unreadable(error: OSError) -> None:
    raise CommandError(
        f"cannot read folder {str(error.filename)!r}: {error.strerror}; check its permissions",
        ExitCode.PATH_UNREADABLE,
    ) from error
