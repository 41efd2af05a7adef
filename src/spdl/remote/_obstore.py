"""Requests by obstore, whose calls release the GIL. Converts its errors to those of this package."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._addresses import is_plain, redacted, url_of

from ._client import Client, Fetched, NotModified, ObjectInfo
from ._errors import RemoteChangedError, RemoteError, RemoteThrottledError, RemoteUnavailableError, is_changed
from ._library import ADVICE, ask_retry_after, divide_options, kind_of, load_obstore, raise_unless_failure, short
from ._listing import ask_for_names, filtered, report_unnamed, server_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Inside the class, `list` is a method.
_Infos: TypeAlias = list[ObjectInfo]
#: Longer than any request.
_NEVER = "30days"
#: Bytes per step of a request for a whole object.
_CHUNK = 1 << 20
_S3 = ("s3://", "s3a://")
#: Ends of the names of options for the server of a store.
_SERVER = ("endpoint", "base_url")
#: Most stores that are kept for URLs that are requested as they are.
_MOST_EXACT = 64


class ObstoreClient(Client):
    """A store of obstore, created in the process that uses it.

    Args:
        options: Configuration of obstore for this kind of store; ``client_options`` has that of its HTTP client.
        exact: For paths that obstore cannot name: the URLs to request.
    """

    def __init__(self, url: str, options: Mapping[str, Any], exact: Mapping[str, str] | None = None) -> None:
        super().__init__(url)
        self._library = load_obstore(url)
        self._options, self._client_options = divide_options(url, options)
        self._is_web = url.startswith(("http://", "https://"))
        scheme, _, rest = url.partition("://")
        bucket, _, folder = rest.partition("/")
        # obstore would decode the name of a folder, which is not encoded.
        self._base, self._prefix = (url, "") if self._is_web else (f"{scheme}://{bucket}", folder)
        self._exact = dict(exact or {})
        self._exact_stores: dict[tuple[tuple[int, bool], str], Any] = {}
        # Stores by time limit: obstore has limits per store, not per request.
        self._stores: dict[tuple[int, bool], Any] = {}
        self._usual: tuple[float, Any] = (0.0, None)  # that of the last request
        self._store_for(32.0)  # wrong options fail here

    def _fetch(
        self, path: str, span: tuple[int, int] | None, etag: str | None, unless: str | None, most: int, seconds: float
    ) -> Fetched:
        options: dict[str, Any] = {}
        if span is not None:
            options["range"] = span
        if etag is not None and not etag.startswith("W/"):  # a weak one never matches
            options["if_match"] = etag
        if unless is not None:
            options["if_none_match"] = unless
        try:
            result = self._library.get(*self._at(path, seconds), options=options or None)
            meta = result.meta
            size, found = meta["size"], meta["e_tag"]
            if etag is not None and found is not None and found != etag:  # a server that ignores conditions
                raise is_changed(self._name(path), found, etag)
            if unless is not None and found == unless:
                raise NotModified
            if span is None and size > most:
                return Fetched(None, size, found)
            data = result.bytes()
        except (RemoteError, NotModified):
            raise
        # obstore's own classes differ between copies of the module, and a panic is no Exception
        except BaseException as exc:  # noqa: BLE001
            raise self._translated(exc, "read", path, etag) from self._cause(exc, path)
        expected = size if span is None else min(span[1], size) - span[0]
        if len(data) != expected:
            raise self._incomplete(path, len(data), expected)
        return Fetched(data, size, found)

    def fetch_whole(self, path: str, most: int, seconds: float) -> "Buffer | None":
        try:
            result = self._library.get(*self._at(path, seconds))
            size = result.range[1]  # cheaper than `meta`
            if size > most:
                return None
            data: Buffer = result.bytes()
        except BaseException as exc:  # noqa: BLE001  # see fetch
            raise self._translated(exc, "read", path) from self._cause(exc, path)
        if len(data) != size:  # type: ignore[arg-type]  # obstore's buffers have a length
            raise self._incomplete(path, len(data), size)  # type: ignore[arg-type]
        return data

    def fetch_range(self, path: str, span: tuple[int, int], seconds: float) -> "Buffer":
        start, stop = span
        try:
            store, name = self._at(path, seconds)
            data: Buffer = self._library.get_range(store, name, start=start, end=stop)
        except BaseException as exc:  # noqa: BLE001  # see fetch
            raise self._translated(exc, "read", path) from self._cause(exc, path)
        if len(data) == stop - start:  # type: ignore[arg-type]  # obstore's buffers have a length
            return data
        return super().fetch_range(path, span, seconds)  # the object or the answer ends early: this finds out which

    def stream(
        self, path: str, start: int, etag: str | None, seconds: float
    ) -> tuple[int, str | None, Iterator[memoryview]]:
        options: dict[str, Any] = {"range": {"offset": start}} if start else {}
        if etag is not None and not etag.startswith("W/"):
            options["if_match"] = etag
        with self._translating("read", path, etag):
            result = self._library.get(*self._at(path, -seconds), options=options or None)
            meta = result.meta
            if etag is not None and meta["e_tag"] not in (None, etag):
                raise is_changed(self._name(path), meta["e_tag"], etag)
        return meta["size"], meta["e_tag"], self._chunks(result, path)

    def _chunks(self, result: Any, path: str) -> Iterator[memoryview]:
        with self._translating("read", path):
            for chunk in result.stream(min_chunk_size=_CHUNK):
                yield memoryview(chunk)

    def head(self, path: str, *, seconds: float) -> ObjectInfo:
        with self._translating("look at", path):
            meta = self._library.head(*self._at(path, seconds))
        return ObjectInfo(path, meta["size"], meta["e_tag"])

    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]:
        start = len(self._prefix)
        folder = (self._prefix + prefix).rstrip("/")
        try:
            found = self._infos(self._store_for(seconds), folder)
            is_complete = not any(info.size == 0 for info in found)  # an empty one may be the mark of a folder
        except BaseException as exc:  # noqa: BLE001  # see fetch
            named = self._ask_for_names(folder, seconds) if type(exc).__name__ == "InvalidPathError" else None
            if named is None:
                raise self._translated(exc, "list", prefix) from self._cause(exc, prefix)
            found, is_complete = named, True
        if not is_complete:
            named = self._ask_for_names(folder, seconds) if self._url.startswith(_S3) else None
            found = self._without_marks(found, seconds) if named is None else named
        for info in found:
            yield info if start == 0 else ObjectInfo(info.path[start:], info.size, info.etag)

    def put(self, path: str, data: "Buffer", *, seconds: float) -> str | None:
        with self._translating("write", path):
            result = self._library.put(*self._at(path, seconds), data)
        etag: str | None = result["e_tag"]
        return etag

    def _as_answered(self, etag: str | None) -> str | None:
        """An ETag from a list, in the form that requests for the object have: Azure lists ETags without quotes."""
        if etag is None or self._url.startswith(("file:", "memory:")) or etag.startswith(('"', "W/")):
            return etag
        return f'"{etag}"'

    def _at(self, path: str, seconds: float) -> tuple[Any, str]:
        """The store with this time limit that has an object, and its path in it."""
        if self._is_web:
            url = self._exact.get(path)
            if url is None and not is_plain(path):
                url = url_of(self._url, path)
            if url is not None:
                return self._exact_store(url, seconds), ""
        elif path[:1] == "/" or path[-1:] == "/":  # obstore would request another object
            raise ValueError("its name has an empty part, which obstore cannot request")
        usual, store = self._usual
        return store if seconds == usual else self._store_for(seconds), self._prefix + path

    def _exact_store(self, url: str, seconds: float) -> Any:
        """A store whose root is an object: its empty path is requested with exactly this URL."""
        power = _power_of(seconds)
        store = self._exact_stores.get((power, url))
        if store is None:
            while len(self._exact_stores) >= _MOST_EXACT:
                self._exact_stores.pop(next(iter(self._exact_stores)), None)
            store = self._library._store.HTTPStore(url, **self._words(power))
            self._exact_stores[power, url] = store
        return store

    def _store_for(self, seconds: float) -> Any:
        """The store whose requests end within ``seconds``, but not much earlier: limits are powers of two."""
        usual, store = self._usual
        if seconds == usual:
            return store
        power = _power_of(seconds)
        store = self._stores.get(power)
        if store is None:
            try:
                # With a slash at the end, paths on web servers would begin with two.
                store = self._library._store.from_url(self._base.rstrip("/"), **self._words(power), **self._options)
            except BaseException as exc:  # see fetch
                raise_unless_failure(exc)
                reason = redacted(short(exc))
                if "Account must be specified" in reason:
                    reason += ": options={'account_name': ...}, or the environment variable AZURE_STORAGE_ACCOUNT_NAME"
                raise RemoteError(f"cannot open {self._url!r}: {reason}", url=self._url, action="open") from exc
            store = self._stores.setdefault(power, store)
        if seconds > 0:
            self._usual = seconds, store
        return store

    def _words(self, power: tuple[int, bool]) -> dict[str, Any]:
        limit = f"{max(1, int(2.0 ** power[0] * 1000))}ms"
        client_options = {"timeout": limit, "connect_timeout": "5s", **self._client_options}
        if power[1]:
            client_options |= {"timeout": _NEVER, "read_timeout": limit}
        return {"client_options": client_options, "retry_config": {"max_retries": 0}}

    # ---------------------------------------------------------------------------------- requests that obstore lacks

    def _ask_for_names(self, folder: str, seconds: float) -> _Infos | None:
        """All objects below a folder whose keys obstore can name. ``None``: there is no way to find them."""
        try:
            if self._url.startswith(_S3):
                return self._listed_on_s3(folder, seconds)
            server = None if self._is_web else server_of(self._url, self._store_for(seconds).config)
            return None if server is None else self._listed_through(*server, folder, seconds)
        except BaseException as exc:  # noqa: BLE001  # see fetch
            raise self._translated(exc, "list", folder[len(self._prefix) :]) from None  # it has a signed URL

    def _listed_on_s3(self, folder: str, seconds: float) -> _Infos:
        def read(url: str) -> bytes:
            return bytes(self._library.get(self._exact_store(url, seconds), "").bytes())

        bucket = self._base.partition("://")[2]
        return ask_for_names(self._library, self._store_for(seconds), bucket, folder, self._options, read, self._url)

    def _listed_through(self, option: str, server: str, folder: str, seconds: float) -> _Infos:
        words = self._words(_power_of(seconds))
        client_options = words["client_options"]

        def read(url: str, headers: dict[str, str]) -> bytes:
            own = {**words, "client_options": {**client_options, "default_headers": headers}}
            return bytes(self._library.get(self._library._store.HTTPStore(url, **own), "").bytes())

        with filtered(server, read) as (url, unnamed, failures):
            options = {name: value for name, value in self._options.items() if not name.lower().endswith(_SERVER)}
            to_us = {**words, "client_options": {**client_options, "allow_http": True}}
            store = self._library._store.from_url(self._base, **to_us, **options, **{option: url})
            try:
                found = self._infos(store, folder)
            except BaseException as exc:  # noqa: BLE001  # see fetch
                raise (failures[0] if failures else exc) from None  # the answer to it was lost
        report_unnamed(self._url, unnamed)
        return found

    def _infos(self, store: Any, folder: str) -> _Infos:
        pages = self._library.list(store, folder or None, chunk_size=1000)
        return [
            ObjectInfo(meta["path"], meta["size"], self._as_answered(meta["e_tag"])) for page in pages for meta in page
        ]

    def _without_marks(self, found: Any, seconds: float) -> Any:
        """Without the marks of folders, ``train/``, which obstore lists as ``train``."""
        marks = set()
        for info in found:
            if info.size == 0:
                try:
                    self._library.head(self._store_for(seconds), info.path)
                except FileNotFoundError:
                    marks.add(info.path)
                except BaseException as exc:  # noqa: BLE001  # see fetch
                    raise_unless_failure(exc)
        report_unnamed(self._url, [f"{path}/" for path in sorted(marks)])
        return [info for info in found if info.size or info.path not in marks]

    def retry_after(self, error: RemoteError) -> float | None:
        path = getattr(error, "_path", None)
        if not isinstance(error, RemoteThrottledError) or not path:  # it was no request for an object
            return None
        try:
            if self._is_web:
                url = self._exact.get(path) or url_of(self._url, path)
            else:
                url = self._library.sign(self._store_for(8.0), "HEAD", self._prefix + path, timedelta(minutes=1))
            return ask_retry_after(url)
        except BaseException as exc:  # noqa: BLE001  # see fetch
            raise_unless_failure(exc)
            return None

    def _incomplete(self, path: str, found: int, expected: int) -> RemoteUnavailableError:
        return RemoteUnavailableError._at("read", self._name(path), f"{found} bytes came instead of {expected}")

    @contextmanager
    def _translating(self, action: str, path: str, etag: str | None = None) -> Iterator[None]:
        """Raise errors of the block as ours. The reads that are made most often do it themselves, which costs less."""
        try:
            yield
        except (GeneratorExit, RemoteError):
            raise
        except BaseException as exc:  # noqa: BLE001  # see fetch
            raise self._translated(exc, action, path, etag) from self._cause(exc, path)

    def _cause(self, exc: BaseException, path: str) -> BaseException | None:
        """What an error is raised from: nothing, if its text would have a signed URL."""
        return None if path in self._exact else exc

    def _translated(self, exc: BaseException, action: str, path: str, etag: str | None = None) -> Exception:
        if isinstance(exc, RemoteError):
            return exc
        raise_unless_failure(exc)
        name = type(exc).__name__
        if name == "NotModifiedError":
            return NotModified()
        text = str(exc)
        kind = kind_of(exc, name, text)
        reason = redacted(short(exc))
        if kind is RemoteChangedError:
            reason = f"it no longer has version {etag}"
        advice = ADVICE.get(kind)
        if name == "NotSupportedError" and "Range" in text:
            advice = "the server sends whole objects only: read them with get(), or through a cache"
        elif name == "GenericError" and "PROPFIND" in text:
            kind, advice = RemoteError, "an HTTP server lists its files only if it speaks WebDAV: name the objects"
        error = kind._at(action, self._name(path), f"{reason}; {advice}" if advice else reason)
        error._ignores_ranges = name == "NotSupportedError" and "Range" in text
        if isinstance(error, RemoteThrottledError):
            error._path = path
        return error


def _power_of(seconds: float) -> tuple[int, bool]:
    """The binary logarithm of a limit, and whether it is for each part of an answer instead of all of it: negative."""
    return math.floor(math.log2(max(abs(seconds), 0.001))), seconds < 0
