"""What obstore needs besides itself: how it is loaded and configured, what its errors mean, and what it does not ask.

Its native code starts threads (a tokio runtime, one for all stores) and keeps them in a static variable. A forked child
has the variable but not the threads, so every request would wait forever there. A child therefore loads a private copy
of the native module, with its own static variables. Children that are spawned, or forked before the first use, are not
affected.
"""

import http.client
import importlib.machinery
import importlib.util
import os
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from ._errors import (
    RemoteChangedError,
    RemoteDeniedError,
    RemoteError,
    RemoteNotFoundError,
    RemotePackageError,
    RemoteRangeError,
    RemoteThrottledError,
    RemoteTimeoutError,
    RemoteUnavailableError,
)

# Modules by the process that loaded them. A parent's modules stay: freeing their stores could need their threads.
_LOADED: dict[int, Any] = {}


def load_obstore(url: str) -> Any:
    """The native module of obstore, usable in this process.

    Raises:
        RemotePackageError: obstore is not installed.
    """
    pid = os.getpid()
    module = _LOADED.get(pid)
    if module is None:
        original = import_obstore(url)
        # Two threads may come here at once; both modules work.
        module = _LOADED.setdefault(pid, _copy_of(original) if _LOADED else original)
    return module


def import_obstore(url: str) -> Any:
    """The native module of obstore, which may be unusable in a forked process.

    Raises:
        RemotePackageError: obstore is not installed.
    """
    try:
        import obstore._obstore as original  # type: ignore[import-not-found, unused-ignore]  # an extra
    except ImportError as exc:
        raise RemotePackageError(
            f"cannot open {url!r}: obstore is not installed ({exc}); install it with:"
            " pip install 'spdl-native[remote]'",
            url=url,
            action="open",
        ) from exc
    return original


def _copy_of(original: Any) -> Any:
    """Load the native module again, from a copy of its file: for the same file, the loader would return the old one."""
    descriptor, path = tempfile.mkstemp(suffix=".so", prefix="spdl-obstore-")
    os.close(descriptor)
    try:
        shutil.copyfile(original.__file__, path)
        loader = importlib.machinery.ExtensionFileLoader(original.__name__, path)
        spec = importlib.util.spec_from_file_location(original.__name__, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    finally:
        with suppress(OSError):
            os.unlink(path)
    return module


_STATUS = re.compile(r"status code: (\d{3})")
ADVICE = {
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


def raise_unless_failure(exc: BaseException) -> None:
    """Raise an exception that is no failure of a request, such as Ctrl-C. A panic of Rust is one."""
    if not isinstance(exc, Exception) and type(exc).__name__ != "PanicException":
        raise exc


def kind_of(exc: BaseException, name: str, text: str) -> type[RemoteError]:
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


def short(exc: BaseException) -> str:
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


#: Options of obstore's HTTP client (``obstore.store.ClientConfig``). Among those of a store, they end as a Rust panic.
_OF_CLIENT = frozenset(
    (
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    )
)
_PREFIXES = ("aws_", "azure_", "google_")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT")
_ENDPOINTS = frozenset(("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "azure_endpoint", "base_url"))


def divide_options(url: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of obstore's store, and those of its HTTP client.

    Raises:
        TypeError: A name is not text, or ``client_options`` is not a dictionary.
        ValueError: An option belongs elsewhere, is given twice, or an endpoint is not a URL.
    """
    given = options.get("client_options")
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"options['client_options'] must be a dict, got {type(given).__name__}")
    of_store: dict[str, Any] = {}
    of_client = dict(given or {})
    for name, value in options.items():
        if not isinstance(name, str):
            raise TypeError(f"names of options must be str, got {name!r}")
        if name == "client_options":
            continue
        plain = _plain(name)
        if plain in _OF_CLIENT:
            if plain in of_client and of_client[plain] != value:
                raise ValueError(f"options has {name!r} and client_options has {plain!r}: give one of them")
            of_client[plain] = value
        else:
            if name.lower() in _ENDPOINTS and isinstance(value, str) and not value.startswith(("http://", "https://")):
                raise ValueError(f"options[{name!r}] must be a URL that starts with https:// or http://, got {value!r}")
            of_store[name] = value
    if _is_http(url, options):
        of_client.setdefault("allow_http", True)
    return of_store, {name: _as_text(name, value) for name, value in of_client.items()}


def _plain(name: str) -> str:
    """The name of an option without the name of the provider."""
    lower = name.lower()
    return next((lower.removeprefix(prefix) for prefix in _PREFIXES if lower.startswith(prefix)), lower)


def _as_text(name: str, value: Any) -> Any:
    """Numbers, which are seconds where they are times, as obstore takes them."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    return f"{value * 1000:.0f}ms" if name.endswith(("timeout", "interval")) else str(value)


def _is_http(url: str, options: Mapping[str, Any]) -> bool:
    """Whether the user named a server without TLS: obstore needs an extra option for those."""
    # Google's endpoint is inside the text of a key.
    if url.startswith("http:") or any("http://" in str(value) for value in options.values()):
        return True
    return os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true" or any(
        os.environ.get(name, "").startswith("http:") for name in _ENDPOINT_VARIABLES
    )


_BUSY = (429, 503)
#: Limit for the answer, in seconds.
_PATIENCE = 5.0


def ask_retry_after(url: str) -> float | None:
    """The seconds that a server asks to wait; ``None``: it does not say. Zero: it is no longer busy."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_PATIENCE):
            return 0.0
    except urllib.error.HTTPError as error:
        with error:
            return parse_retry_after(error.headers.get("Retry-After"), time.time()) if error.code in _BUSY else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Seconds from now, from the value of the header: a number of seconds, or a date (RFC 9110, 10.2.3)."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - now, 0.0)
    except ValueError:
        return None
