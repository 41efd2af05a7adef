"""Lists buckets that obstore cannot list: one key that it cannot name makes its whole listing fail.

S3: obstore signs URLs of objects, with credentials from wherever it finds them. It signs whatever query its endpoint
has, so it also signs the request for a list (ListObjectsV2, with the keys percent-encoded).

Google and Azure: what authorizes a request does not depend on the host. So obstore lists a server of this process,
which passes its requests on, and takes the keys that it cannot name out of the answers.
"""

import json
import logging
import os
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote, urlencode

from spdl._addresses import is_plain, redacted
from spdl._reports import log

from ._client import ObjectInfo

_LG = logging.getLogger("spdl.remote")
_VALID = timedelta(minutes=10)
#: Options that decide about the URL, which is known here.
_OF_URL = ("endpoint", "endpoint_url", "virtual_hosted_style_request", "bucket", "bucket_name")


def ask_for_names(
    library: Any,
    store: Any,
    bucket: str,
    folder: str,
    options: Mapping[str, Any],
    read: Callable[[str], bytes],
    url: str,
) -> list[ObjectInfo]:
    """The objects below a folder whose keys obstore can request. The others are counted in a warning.

    Args:
        folder: Prefix of the keys, without its last slash.
        read: Function from a URL to the bytes of the answer.
        url: Name of the store in messages.
    """
    words = {name: value for name, value in options.items() if _plain(name) not in _OF_URL}
    is_public = str(words.pop("skip_signature", False)).lower() == "true"
    client_options = store.client_options
    if is_public:
        words |= {"access_key_id": "none", "secret_access_key": "none"}
        own = {name: value for name, value in options.items() if _plain(name) in _OF_URL} | words
        store = library._store.S3Store(bucket, client_options=client_options, **own)
    root = library.sign(store, "GET", "", _VALID).partition("?")[0]
    prefix = f"{folder}/" if folder else ""
    found: list[ObjectInfo] = []
    unnamed: list[str] = []
    token: str | None = None
    while True:
        query = {"list-type": "2", "prefix": prefix, "encoding-type": "url"}
        if token is not None:
            query["continuation-token"] = token
        # The path that obstore appends becomes the value of the last parameter.
        asked = f"{root}?{urlencode(query, quote_via=quote, safe='', errors='surrogateescape')}"
        if not is_public:
            signing = library._store.S3Store(
                bucket,
                endpoint=f"{asked}&x-id=",
                virtual_hosted_style_request=True,
                client_options=client_options,
                **words,
            )
            asked = library.sign(signing, "GET", "", _VALID)
        page = ET.fromstring(read(asked))
        is_encoded = _text(page, "EncodingType") == "url"
        for entry in (each for each in page if _tag(each) == "Contents"):
            key = _text(entry, "Key")
            key = unquote(key, errors="surrogateescape") if is_encoded else key
            etag = _text(entry, "ETag")
            if is_plain(key):
                etag = etag if etag.startswith(('"', "W/")) else f'"{etag}"'
                found.append(ObjectInfo(key, int(_text(entry, "Size")), etag))
            else:
                unnamed.append(key)
        token = _text(page, "NextContinuationToken")
        if not token:
            break
    report_unnamed(url, unnamed)
    return found


_GOOGLE = "https://storage.googleapis.com"
# An object in a list of Google ("List Objects", cloud.google.com/storage/docs/xml-api) or Azure ("List Blobs",
# learn.microsoft.com/rest/api/storageservices).
_ENTRY = re.compile(rb"<(Contents|Blob)>.*?</\1>", re.DOTALL)
#: Headers of a connection, not of a request.
_OF_CONNECTION = ("host", "connection", "accept-encoding", "user-agent", "accept")


def server_of(url: str, config: Mapping[str, Any]) -> tuple[str, str] | None:
    """The name of obstore's option for the server of a store, and its URL. ``None``: not known."""
    if url.startswith("gs://"):
        found = config.get("base_url") or _key_of_google(config).get("gcs_base_url") or _GOOGLE
        return "base_url", str(found).rstrip("/")
    if any(str(config.get(name)).lower() == "true" for name in ("use_emulator", "use_fabric_endpoint")):
        return None
    variables = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    given = config.get("endpoint") or next((os.environ[name] for name in variables if os.environ.get(name)), None)
    account = config.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if given is None and account is None:
        return None
    return "endpoint", str(given or f"https://{account}.blob.core.windows.net").rstrip("/")


def _key_of_google(config: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a service account, which may name a server."""
    variables = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH")
    path = config.get("service_account") or next((os.environ[each] for each in variables if os.environ.get(each)), None)
    text = config.get("service_account_key") or os.environ.get("GOOGLE_SERVICE_ACCOUNT_KEY")
    try:
        if path is not None:
            with open(path, "rb") as file:
                text = file.read()
        found = json.loads(text or "{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def filtered(
    server: str, read: Callable[[str, dict[str, str]], bytes]
) -> Iterator[tuple[str, list[str], list[BaseException]]]:
    """A server of lists that have no keys which obstore cannot name: its URL, the other keys, and what failed.

    Args:
        server: URL of the server of the store.
        read: Function from a URL and headers to the bytes of the answer.
    """
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    unnamed: list[str] = []
    failures: list[BaseException] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_CONNECTION}
            try:
                data = _ENTRY.sub(keep, read(server + self.path, headers))
            except BaseException as exc:  # noqa: BLE001  # raised in the thread that lists
                failures.append(exc)
                self.send_error(400)
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    def keep(entry: "re.Match[bytes]") -> bytes:
        name = _name_in(entry[0])
        if is_plain(name):
            return entry[0]
        unnamed.append(name)
        return b""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), name="spdl-listing", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}", unnamed, failures
        finally:
            running.shutdown()
            thread.join()


def _name_in(entry: bytes) -> str:
    try:
        element = ET.fromstring(entry)
    except ET.ParseError:  # a name with characters that XML does not have
        found = re.search(rb"<(Key|Name)[^>]*>(.*?)</\1>", entry, re.DOTALL)
        return "" if found is None else found[2].decode(errors="surrogateescape")
    for each in element:
        if _tag(each) in ("Key", "Name"):
            # Azure encodes a name that has characters which XML does not have; obstore would not decode it.
            return unquote(each.text or "") if each.get("Encoded") == "true" else each.text or ""
    return ""


def report_unnamed(url: str, names: list[str]) -> None:
    """Log which objects are left out of a listing."""
    if names:
        log(
            _LG,
            logging.WARNING,
            "%d objects below %s are left out of the listing, because their names cannot be requested (empty parts,"
            " control characters, or marks of folders): %s%s",
            len(names),
            redacted(url),
            ", ".join(map(repr, names[:5])),
            f" and {len(names) - 5} more" if len(names) > 5 else "",
        )


def _plain(name: str) -> str:
    return name.lower().removeprefix("aws_")


def _tag(element: "ET.Element") -> str:
    return element.tag.rpartition("}")[2]


def _text(element: "ET.Element", name: str) -> str:
    return next((each.text or "" for each in element if _tag(each) == name), "")
