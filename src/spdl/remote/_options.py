"""Options of stores: those of the HTTP client are moved to where obstore expects them."""

import os
from collections.abc import Mapping
from typing import Any

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
