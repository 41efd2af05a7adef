"""Asks a busy server how long to wait. obstore does not pass on the headers of a refusal."""

import http.client
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime

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
