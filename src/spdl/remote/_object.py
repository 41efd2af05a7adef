"""One object of a store, as a source of media."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ._store import RemoteStore
from ._urls import split_object_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._blocks import ObjectBlocks

__all__ = ["RemoteObject"]


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """An object of a store. The functions of ``spdl.io`` take it as a source; ``str`` of it is its URL.

    Attributes:
        store: Where it is.
        path: Path, relative to the root of the store.
        etag: Version that it must have. ``None``: any.
    """

    store: RemoteStore
    path: str
    etag: str | None = None

    @classmethod
    def of(cls, url: str) -> "RemoteObject":
        """The object at a URL, in a store without options: they come from the environment.

        Raises:
            RemoteError: The URL names no object.
            ValueError: It has no scheme.
        """
        root, path = split_object_url(url)
        return cls(_store_at(root), path)

    @classmethod
    def _of_file(cls, file: Any) -> "RemoteObject":
        """The object of an fsspec file, open or not."""
        return cls(RemoteStore._of_system(file.fs), file.fs.unstrip_protocol(file.path))

    @property
    def url(self) -> str:
        """URL of the object."""
        return self.store.url_of(self.path)

    def read(self) -> bytes:
        """The whole object. Errors are those of ``RemoteStore.get``."""
        return self.store.get(self.path, etag=self.etag)

    def __spdl_fetch__(self) -> "Buffer":
        """The whole object as ``spdl.io`` reads it: without a copy."""
        return self.store._get(self.path, self.etag)

    def __spdl_open__(self) -> "Buffer | ObjectBlocks":
        """The whole object if it is small, else an ``ObjectBlocks`` from which native code reads parts."""
        from ._blocks import open_blocks

        return open_blocks(self.store, self.path, self.etag)

    def __str__(self) -> str:
        return self.url


@lru_cache(maxsize=64)
def _store_at(root: str) -> RemoteStore:
    """The store of a bucket or host, so that all objects in it share connections. The limit only bounds memory."""
    return RemoteStore(root)
