"""URLs of stores and of objects."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from ._errors import RemoteError

__all__ = ["OBSTORE_SCHEMES", "as_root", "split_object_url"]

#: Schemes that obstore reads. ``memory`` is a store inside one process, for tests.
OBSTORE_SCHEMES = frozenset(
    ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "http", "https", "file", "memory")
)


def as_root(url: str | os.PathLike[str]) -> str:
    """The URL of a store, with a slash at the end. A path becomes a ``file`` URL.

    Raises:
        TypeError: It is neither text nor a path.
        ValueError: It is text without a scheme, or has a query.
    """
    if isinstance(url, os.PathLike):
        return Path(url).absolute().as_uri().rstrip("/") + "/"
    if not isinstance(url, str):
        raise TypeError(f"url must be str or a path, got {type(url).__name__}")
    parts = urlsplit(url)
    if "://" not in url or not parts.scheme:
        raise ValueError(f"url must start with a scheme such as s3://, gs://, az://, https:// or file://, got {url!r}")
    if parts.query or parts.fragment:
        raise ValueError(f"url must have no query and no fragment, got {url!r}; pass credentials in options")
    return url.rstrip("/") + "/" if not url.endswith("://") else url


def split_object_url(url: str) -> tuple[str, str]:
    """The root of the store (bucket or host) and the path of the object in it.

    Raises:
        RemoteError: The URL names no object.
    """
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    if not bucket or not path.strip("/"):
        raise RemoteError(
            f"cannot read {url!r}: it names no object; write {scheme}://BUCKET/PATH", url=url, action="read"
        )
    return f"{scheme}://{bucket}/", path
