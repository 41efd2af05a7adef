"""One object of a store, as a source of media."""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from spdl._addresses import Address, parse_address, redacted, root_of

from ._errors import RemoteError
from ._store import RemoteStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._blocks import ObjectBlocks


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """An object of a store. The functions of ``spdl.io`` take it as a source; ``str`` is its URL without a query.

    Attributes:
        store: Where it is.
        path: Path, relative to the root of the store.
        etag: Version that it must have. ``None``: any.
    """

    store: RemoteStore
    path: str
    etag: str | None = None

    @classmethod
    def of(cls, url: str | os.PathLike[str]) -> "RemoteObject":
        """The object at a URL or local path, in a store without options: they come from the environment.

        Raises:
            RemoteError: It names no object.
            ValueError: It is a command, or a ``file`` URL of another machine.
        """
        address = parse_address(url)
        if address.root and address.exact is None and (not address.path.strip("/") or address.path.endswith("/")):
            raise RemoteError(
                f"cannot read {redacted(str(url))!r}: it names no object; write a URL such as s3://BUCKET/PATH",
                url=redacted(str(url)),
                action="read",
            )
        return cls._at(address)

    @classmethod
    def _at(cls, address: Address) -> "RemoteObject":
        if not address.root:  # a local file
            folder, name = os.path.split(os.path.abspath(address.path))
            return cls(_store_at(root_of(Path(folder))), name)
        return cls(cls._store_of(address), address.path)

    @staticmethod
    def _store_of(address: Address) -> RemoteStore:
        """The store without options that has an object, shared by all of its bucket or host."""
        root, path, exact, _ = address
        return _store_at(root, None if exact is None else (path, exact))

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

    def _open_stream(self) -> "BinaryIO":
        """A file that is read from start to end, by one request."""
        return self.store._open_stream(self.path)

    def __spdl_fetch__(self) -> "Buffer":
        """The whole object as ``spdl.io`` reads it: without a copy."""
        return self.store._get(self.path, self.etag)

    def __spdl_open__(self) -> "Buffer | ObjectBlocks":
        """The whole object if it is small, else an ``ObjectBlocks`` from which native code reads parts."""
        from ._blocks import open_blocks

        return open_blocks(self.store, self.path, self.etag)

    def __str__(self) -> str:
        return self.store._shown(self.path)


@lru_cache(maxsize=64)
def _store_at(root: str, exact: tuple[str, str] | None = None) -> RemoteStore:
    """The store of a bucket or host, so that all objects in it share connections. The limit only bounds memory.

    Args:
        exact: The path of an object, and the URL to request for it.
    """
    if exact is None:
        return RemoteStore(root)
    return _store_at(root)._with_exact(dict([exact]))
