"""Addresses of files and objects: what a path or URL means, for everything that takes one.

An address is one of these:

- An :class:`os.PathLike` is a local file or folder. It is never a URL, and never expanded.
- Text with a scheme is a URL. ``http``, ``https`` and ``file`` URLs are percent-encoded (RFC 3986, 2.1): an encoded
  byte stands for the byte, and what should have been encoded but was not stands for itself. In the other schemes, which
  are those of object stores and fsspec, everything after the bucket is the name of the object, character by character.
- Any other text is a local path.

Web servers may tell ``a%2Fb`` from ``a/b``, and a query is a part of the name, so such a URL is also kept as it is.
"""

import os
import re
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

# A scheme, or several chained by fsspec: simplecache::s3://bucket/x.
_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*://")
# What expands: braces and wildcards.
_SPECIAL = re.compile(r"[*?\[{]")
_WEB = ("http", "https")
# RFC 3986, 3.3: the characters of a path segment that are not encoded.
_SEGMENT = "!$&'()*+,;=:@~-._"
_UNSAFE = re.compile(r"%(?![0-9A-Fa-f]{2})|[^!$%&'()*+,;=:@~\-._/A-Za-z0-9\[\]]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# The query of each URL in a text, and a password.
_QUERY = re.compile(r"(\bhttps?://[^\s?'\"<>]*)\?[^\s'\"<>)]*", re.IGNORECASE)
# A signature in the name of an object, by which nothing can be read.
_SIGNATURE = re.compile(
    r"([?&](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|Signature|AWSAccessKeyId|sig)=)[^\s&'\"<>)]*",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+:[^\s/@'\"]+@", re.IGNORECASE)


class Address(NamedTuple):
    """Where a file or object is."""

    #: URL of the bucket or host, with a slash at the end. Empty: a local file.
    root: str
    #: Local path, or the name of the object below the root: decoded. A slash at the end: a folder.
    path: str
    #: The URL to request, if root and path do not determine it. May hold a signature.
    exact: str | None = None
    #: Whether it names one file, even if the name has braces or wildcards.
    is_literal: bool = False


def is_url(text: str) -> bool:
    """Whether text is a URL rather than a local path.

    Raises:
        ValueError: It is a command, as WebDataset accepts.
    """
    if text.startswith("pipe:"):
        raise ValueError(
            f"commands are not run, got {text!r}: give the URL itself (s3://, gs://, az://, https://), or open_shard="
        )
    return _URL.match(text) is not None


def parse_address(given: str | os.PathLike[str]) -> Address:
    """Parse the address of a file, object or folder.

    Raises:
        TypeError: It is neither text nor a path.
        ValueError: It is a command, or a ``file`` URL of another machine.
    """
    if isinstance(given, os.PathLike):
        return Address("", os.fsdecode(given), is_literal=True)
    if not isinstance(given, str):
        raise TypeError(f"an address must be str or a path, got {type(given).__name__}")
    if not is_url(given):
        return Address("", given, is_literal=_SPECIAL.search(given) is None)
    scheme, bucket, rest = _divided(given)
    if scheme == "file":
        return Address("", local_path(given), is_literal=_SPECIAL.search(rest) is None)
    root = f"{scheme}://{bucket}/"
    if scheme not in _WEB:
        return Address(root, rest, is_literal=_SPECIAL.search(rest) is None)
    encoded, mark, query = _encoded(rest).partition("?")
    path = unquote(encoded, errors="surrogateescape")
    is_exact = bool(mark) or not is_plain(path) or "%2f" in encoded.lower()
    return Address(
        root,
        path,
        f"{root}{encoded}{mark}{query}" if is_exact else None,
        # A web server has no list of its files, so only braces expand.
        "{" not in rest.partition("?")[0],
    )


def root_of(given: str | os.PathLike[str]) -> str:
    """The URL of a folder, bucket or host, with a slash at the end, from which ``url_of`` makes URLs.

    Raises:
        TypeError: It is neither text nor a path.
        ValueError: It is neither a URL nor a local folder; it has a query; or it is a ``file`` URL of another machine.
    """
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"url must be str or a path, got {type(given).__name__}")
    if isinstance(given, os.PathLike) or not is_url(given):
        path = os.fsdecode(given)
        if isinstance(given, str) and not os.path.isabs(path) and not os.path.isdir(path):
            raise ValueError(
                "url must start with a scheme such as s3://, gs://, az://, https:// or file://, or be a folder,"
                f" got {given!r}"
            )
        return _file_url(path)
    scheme, bucket, rest = _divided(given)
    if scheme == "file":
        return _file_url(local_path(given))
    # In the name of a folder, a question mark is allowed; this is a query.
    if re.search(r"\?[^/?]*=" if scheme not in _WEB else r"\?", rest):
        raise ValueError(
            f"url must have no query, got {redacted(given)!r}; pass credentials in options. A presigned URL is of one"
            " object: give it to RemoteObject.of, or to what reads the object, such as ShardStream, or open it with"
            " open_shard=/open_file="
        )
    if scheme in _WEB:
        rest = _encoded(rest)
    rest = rest.rstrip("/")
    return f"{scheme}://{bucket}/{rest}/" if rest else f"{scheme}://{bucket}/" if bucket else f"{scheme}://"


def url_of(root: str, path: str) -> str:
    """The URL of an object below a root: an address of it."""
    if root.startswith(("http://", "https://", "file://")):
        return root + quote(path, safe=f"/{_SEGMENT}", errors="surrogateescape")
    return root + path


def web_url(text: str) -> str:
    """An ``http`` or ``https`` URL in its encoded form."""
    scheme, host, rest = _divided(text)
    return f"{scheme}://{host}/{_encoded(rest)}"


def local_path(url: str) -> str:
    """The path of a ``file`` URL (RFC 8089).

    Raises:
        ValueError: It names another machine.
    """
    _, host, rest = _divided(url)
    if host not in ("", "localhost"):
        raise ValueError(f"a file URL must begin with file:///, got {url!r}, which names the machine {host!r}")
    return os.fsdecode(unquote_to_bytes(f"/{rest}".encode("utf-8", "surrogateescape")))


def is_plain(path: str) -> bool:
    """Whether all clients can request an object with this name: no empty parts, dots, or control characters."""
    parts = path.split("/")
    return not ("" in parts or "." in parts or ".." in parts or _CONTROL.search(path)) and _is_utf_8(path)


def redacted(text: str) -> str:
    """A text for messages: without passwords, and without the queries of URLs, which may be signatures."""
    return _PASSWORD.sub(r"\1...@", _SIGNATURE.sub(r"\1...", _QUERY.sub(r"\1?...", text)))


def _divided(url: str) -> tuple[str, str, str]:
    """The scheme in lower case, the bucket or host, and the rest without its first slash."""
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    scheme = scheme.lower()
    if scheme in _WEB and "?" in bucket:  # https://host?query
        bucket, _, path = rest.partition("?")
        path = f"?{path}"
    return scheme, bucket, path


def _encoded(rest: str) -> str:
    """Path and query of a web URL, with everything encoded that must be, and what is encoded unchanged.

    A fragment is not sent to a server, so ``#`` can only be a part of the name.
    """
    path, mark, query = rest.partition("?")
    # A query that is a signature must stay as it is.
    return _UNSAFE.sub(_quoted, path).replace("[", "%5B").replace("]", "%5D") + mark + _UNSAFE.sub(_quoted, query)


def _quoted(match: re.Match[str]) -> str:
    return quote(match[0], safe="?", errors="surrogateescape")


def _file_url(path: str) -> str:
    encoded = quote(os.fsencode(os.path.abspath(path)).rstrip(b"/"), safe=f"/{_SEGMENT}")
    return f"file://{encoded}/"


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
