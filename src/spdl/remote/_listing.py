"""Lists the keys of an S3 bucket that obstore cannot list: one key that it cannot name makes its whole listing fail.

obstore signs URLs of objects, with credentials from wherever it finds them. It signs whatever query its endpoint has,
so it also signs the request for a list (ListObjectsV2, with the keys percent-encoded).
"""

import logging
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote, urlencode

from spdl._addresses import is_plain, redacted
from spdl._reports import log

from ._located import ObjectInfo

__all__ = ["ask_for_names", "report_unnamed"]

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
        library: obstore.
        store: A store of the bucket.
        folder: Prefix of the keys, without its last slash.
        options: Those of the store.
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
