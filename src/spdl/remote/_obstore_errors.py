"""What obstore's exceptions mean: their kinds, from their classes and texts."""

import re

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
