"""Requests by obstore, whose calls release the GIL. Converts its errors to those of this package."""

import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._client import Fetched, NotModified
from ._errors import (
    RemoteChangedError,
    RemoteDeniedError,
    RemoteError,
    RemoteNotFoundError,
    RemoteRangeError,
    RemoteThrottledError,
    RemoteTimeoutError,
    RemoteUnavailableError,
)
from ._library import load_obstore
from ._located import ObjectInfo

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ObstoreClient"]

_STATUS = re.compile(r"status code: (\d{3})")
_ADVICE = {
    RemoteNotFoundError: "check the path",
    RemoteDeniedError: "check the credentials (options, or the environment variables of the provider's tools); a public"
    " bucket needs options={'skip_signature': True}",
    RemoteThrottledError: "use fewer threads, or a larger timeout",
    RemoteTimeoutError: "check the network, or use a larger timeout",
    RemoteUnavailableError: "check the network and the endpoint",
}
# Without other credentials, obstore asks for the machine's own, if the machine belongs to the provider.
_NO_CREDENTIALS = r"169\.254\.169\.254|metadata\.google|[Cc]redential"
# The local file system and broken connections have no HTTP status.
_WORDS: tuple[tuple[str, type[RemoteError]], ...] = (
    (r"[Rr]ange was invalid|[Ii]nvalid range", RemoteRangeError),
    (r"SlowDown|TooManyRequests|reduce your request rate", RemoteThrottledError),
    (r"Permission denied|os error 13\b", RemoteDeniedError),
    (r"No such file|os error 2\b", RemoteNotFoundError),
    (r"TimedOut|kind: Timeout|timed out", RemoteTimeoutError),
    (r"error sending request|body error|error decoding response|connection|Connect", RemoteUnavailableError),
)
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT")


class ObstoreClient:
    """A store of obstore, created in the process that uses it.

    Args:
        options: Configuration of obstore for this kind of store; ``client_options`` has that of its HTTP client.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._url = url
        self._library = load_obstore(url)
        self._options = {key: value for key, value in options.items() if key != "client_options"}
        self._client_options = dict(options.get("client_options", {}))
        if _is_http(url, options):
            self._client_options.setdefault("allow_http", True)
        # Stores by time limit: obstore has limits per store, not per request.
        self._stores: dict[int, Any] = {}
        self._usual: tuple[float, Any] = (0.0, None)  # that of the last request
        self._store_for(32.0)  # wrong options fail here

    def fetch(
        self,
        path: str,
        span: tuple[int, int] | None,
        *,
        etag: str | None,
        unless: str | None,
        most: int,
        seconds: float,
    ) -> Fetched:
        fetched = self._fetch(path, span, etag, unless, most, seconds)
        if span is not None and span[1] > fetched.size:
            raise RemoteRangeError(
                f"cannot read bytes {span[0]} to {span[1]} of {self._name(path)}: it has only {fetched.size};"
                " rebuild the index",
                url=self._name(path),
                action="read",
            )
        return fetched

    def fetch_start(self, path: str, count: int, *, etag: str | None, unless: str | None, seconds: float) -> Fetched:
        return self._fetch(path, (0, count), etag, unless, 0, seconds)

    def _fetch(
        self,
        path: str,
        span: tuple[int, int] | None,
        etag: str | None,
        unless: str | None,
        most: int,
        seconds: float,
    ) -> Fetched:
        """Fetch a range, as far as it exists."""
        options: dict[str, Any] = {}
        if span is not None:
            options["range"] = span
        if etag is not None and not etag.startswith("W/"):  # a weak one never matches
            options["if_match"] = etag
        if unless is not None:
            options["if_none_match"] = unless
        try:
            result = self._library.get(self._store_for(seconds), path, options=options or None)
            meta = result.meta
            size, found = meta["size"], meta["e_tag"]
            if etag is not None and found is not None and found != etag:  # a server that ignores conditions
                raise RemoteChangedError(
                    f"cannot read {self._name(path)}: it is version {found}, not {etag}", url=self._name(path)
                )
            if unless is not None and found == unless:
                raise NotModified
            if span is None and size > most:
                return Fetched(None, size, found)
            data = result.bytes()
        except (RemoteError, NotModified):
            raise
        except Exception as exc:  # obstore's own classes, which differ between copies of the module
            raise self._translated(exc, "read", path, etag) from exc
        expected = size if span is None else min(span[1], size) - span[0]
        if len(data) != expected:
            raise self._incomplete(path, len(data), expected)
        return Fetched(data, size, found)

    def fetch_whole(self, path: str, most: int, seconds: float) -> "Buffer | None":
        try:
            limit, store = self._usual
            result = self._library.get(store if seconds == limit else self._store_for(seconds), path)
            size = result.range[1]  # cheaper than `meta`
            if size > most:
                return None
            data: Buffer = result.bytes()
        except Exception as exc:  # see fetch
            raise self._translated(exc, "read", path) from exc
        if len(data) != size:  # type: ignore[arg-type]  # obstore's buffers have a length
            raise self._incomplete(path, len(data), size)  # type: ignore[arg-type]
        return data

    def fetch_range(self, path: str, span: tuple[int, int], seconds: float) -> "Buffer":
        start, stop = span
        try:
            limit, store = self._usual
            store = store if seconds == limit else self._store_for(seconds)
            data: Buffer = self._library.get_range(store, path, start=start, end=stop)
        except Exception as exc:  # see fetch
            raise self._translated(exc, "read", path) from exc
        if len(data) == stop - start:  # type: ignore[arg-type]  # obstore's buffers have a length
            return data
        # The object or the answer ends early: this call finds out which.
        whole = self.fetch(path, span, etag=None, unless=None, most=0, seconds=seconds).data
        assert whole is not None
        return whole

    def head(self, path: str, *, seconds: float) -> ObjectInfo:
        try:
            meta = self._library.head(self._store_for(seconds), path)
        except Exception as exc:  # see fetch
            raise self._translated(exc, "look at", path) from exc
        return ObjectInfo(path, meta["size"], meta["e_tag"])

    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]:
        try:
            for page in self._library.list(self._store_for(seconds), prefix.rstrip("/") or None, chunk_size=1000):
                for meta in page:
                    yield ObjectInfo(meta["path"], meta["size"], self._as_answered(meta["e_tag"]))
        except Exception as exc:  # see fetch
            raise self._translated(exc, "list", prefix) from exc

    def put(self, path: str, data: "Buffer", *, seconds: float) -> str | None:
        try:
            result = self._library.put(self._store_for(seconds), path, data)
        except Exception as exc:  # see fetch
            raise self._translated(exc, "write", path) from exc
        etag: str | None = result["e_tag"]
        return etag

    def _as_answered(self, etag: str | None) -> str | None:
        """An ETag from a list, in the form that requests for the object have: Azure lists ETags without quotes."""
        if etag is None or self._url.startswith(("file:", "memory:")) or etag.startswith(('"', "W/")):
            return etag
        return f'"{etag}"'

    def _store_for(self, seconds: float) -> Any:
        """The store whose requests end within ``seconds``, but not much earlier: limits are powers of two."""
        usual, store = self._usual
        if seconds == usual:
            return store
        power = math.floor(math.log2(max(seconds, 0.001)))
        store = self._stores.get(power)
        if store is None:
            limit = f"{2.0**power * 1000:.0f}ms" if power >= 0 else f"{max(1, int(2.0**power * 1000))}ms"
            client_options = {"timeout": limit, "connect_timeout": "5s", **self._client_options}
            words: dict[str, Any] = {}
            if not self._url.startswith(("file:", "memory:")):
                words = {"client_options": client_options, "retry_config": {"max_retries": 0}, **self._options}
            elif self._options:
                words = dict(self._options)
            try:
                # With a slash at the end, paths on web servers would begin with two.
                url = self._url if self._url.endswith(":///") else self._url.rstrip("/")
                store = self._library._store.from_url(url, **words)
            except Exception as exc:  # see fetch
                reason = _short(exc)
                if "Account must be specified" in reason:
                    reason += ": options={'account_name': ...}, or the environment variable AZURE_STORAGE_ACCOUNT_NAME"
                raise RemoteError(f"cannot open {self._url!r}: {reason}", url=self._url, action="open") from exc
            store = self._stores.setdefault(power, store)
        self._usual = seconds, store
        return store

    def _incomplete(self, path: str, found: int, expected: int) -> RemoteUnavailableError:
        url = self._name(path)
        return RemoteUnavailableError(
            f"cannot read {url}: {found} bytes came instead of {expected}", url=url, action="read"
        )

    def _name(self, path: str) -> str:
        return f"{self._url.rstrip('/')}/{path}"

    def _translated(self, exc: Exception, action: str, path: str, etag: str | None = None) -> Exception:
        name = type(exc).__name__
        if name == "NotModifiedError":
            return NotModified()
        text = str(exc)
        kind = _kind_of(exc, name, text)
        url = self._name(path)
        reason = _short(exc)
        if kind is RemoteChangedError:
            reason = f"it no longer has version {etag}"
        advice = _ADVICE.get(kind)
        if name == "NotSupportedError" and "Range" in text:
            advice = "the server sends whole objects only: read them with get(), or through a cache of whole objects"
        elif name == "GenericError" and "PROPFIND" in text:
            kind, advice = RemoteError, "an HTTP server lists its files only if it speaks WebDAV: name the objects"
        message = f"cannot {action} {url}: {reason}" + (f"; {advice}" if advice else "")
        return kind(message, url=url, action=action)


def _is_http(url: str, options: Mapping[str, Any]) -> bool:
    """Whether the user named a server without TLS: obstore needs an extra option for those."""
    # Google's endpoint is inside the text of a key.
    if url.startswith("http:") or any("http://" in str(value) for value in options.values()):
        return True
    return os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true" or any(
        os.environ.get(name, "").startswith("http:") for name in _ENDPOINT_VARIABLES
    )


def _kind_of(exc: Exception, name: str, text: str) -> type[RemoteError]:
    if isinstance(exc, FileNotFoundError):
        return RemoteNotFoundError
    by_name: dict[str, type[RemoteError]] = {
        "PermissionDeniedError": RemoteDeniedError,
        "UnauthenticatedError": RemoteDeniedError,
        "PreconditionError": RemoteChangedError,
        "NotSupportedError": RemoteError,
        "InvalidPathError": RemoteError,
        "UnknownConfigurationKeyError": RemoteError,
    }
    if name in by_name:
        return by_name[name]
    match = _STATUS.search(text)
    if re.search(_NO_CREDENTIALS, text):
        return RemoteDeniedError
    if match is not None:
        status = int(match[1])
        if status in (401, 403):
            return RemoteDeniedError
        if status == 404:  # of a bucket
            return RemoteNotFoundError
        if status in (429, 503):
            return RemoteThrottledError
        if status == 416:
            return RemoteRangeError
        if status in (408, 504):
            return RemoteTimeoutError
        return RemoteUnavailableError if status >= 500 else RemoteError
    return next((kind for words, kind in _WORDS if re.search(words, text)), RemoteError)


def _short(exc: Exception) -> str:
    """obstore's message, without the dump of its state."""
    text = str(exc).partition("\n\nDebug source")[0]
    text = " ".join(text.split())
    match = re.search(r"Error performing \w+ \S+ in \S+ - (.*)", text)
    text = match[1] if match is not None else text
    text = text.replace("Server returned non-2xx status code: ", "").rstrip(":")
    # The stores answer in XML: <Code>NoSuchKey</Code><Message>The specified key does not exist.</Message>
    match = re.search(r"^(.*?)(?:: )?<.*?<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", text)
    if match is not None:
        said = (match[3] or "").partition(" RequestId:")[0]  # Azure's
        text = f"{match[1]} ({match[2]}{f': {said}' if said else ''})"
    return text if len(text) <= 300 else text[:297] + "..."
