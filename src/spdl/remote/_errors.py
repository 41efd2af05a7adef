"""Exceptions of the package: one class per failure that a caller may want to handle."""

import errno
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import Self


def is_changed(url: str, found: str | None, wanted: str) -> "RemoteChangedError":
    """The error for an object of another version than the wanted one."""
    return RemoteChangedError._at("read", url, f"it is version {found}, not {wanted}; rebuild the index")


def is_beyond(url: str, start: int, stop: int, size: int) -> "RemoteRangeError":
    """The error for an object that ends before a range does."""
    return RemoteRangeError(
        f"cannot read bytes {start} to {stop} of {url}: it has only {size}; rebuild the index", url=url, action="read"
    )


def _restore(cls: type["RemoteError"], args: tuple[Any, ...], state: dict[str, Any]) -> "RemoteError":
    error = cls(*args)
    for name, value in state.items():
        setattr(error, name, value)
    return error


class RemoteError(RuntimeError):
    """An object could not be read, written or listed.

    Attributes:
        url: URL of the object or folder.
        action: The attempted action, such as ``"read"``.
        num_attempts: Number of requests made for it.
    """

    #: Whether another attempt may succeed.
    _is_transient: ClassVar[bool] = False
    _errno: ClassVar[int | None] = None
    #: Whether the server ignored a range and sent the whole object.
    _ignores_ranges: bool = False

    def __init__(self, message: str, *, url: str | None = None, action: str | None = None) -> None:
        super().__init__(message)
        self.url = url
        self.action = action
        self.num_attempts = 1
        if self._errno is not None:
            for name, value in (("errno", self._errno), ("filename", url)):  # attributes of the builtin class
                setattr(self, name, value)

    @classmethod
    def _at(cls, action: str, url: str, reason: str) -> "Self":
        """The error of an action on an object."""
        return cls(f"cannot {action} {url}: {reason}", url=url, action=action)

    def __str__(self) -> str:
        # Builtin base classes would prepend their own fields.
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        if self._errno is not None:  # the builtin class keeps its fields outside __dict__
            state |= {name: getattr(self, name) for name in ("errno", "filename")}
        return _restore, (type(self), self.args, state)


class RemoteNotFoundError(RemoteError, FileNotFoundError):
    """There is no such object, bucket or folder. ``errno`` and ``filename`` are set as in the builtin class."""

    _errno = errno.ENOENT


class RemoteOfflineError(RemoteNotFoundError):
    """The store is offline, and its cache does not have this."""


class RemoteDeniedError(RemoteError, PermissionError):
    """There are no credentials, or they do not allow the action."""

    _errno = errno.EACCES


class RemoteChangedError(RemoteError):
    """The object does not have the requested version: its ETag differs."""


class RemoteRangeError(RemoteError, ValueError):
    """The object ends before the end of the range, so it is not the object that the range was computed from."""


class RemoteThrottledError(RemoteError):
    """The store refused every attempt because of too many requests (429, 503 or ``SlowDown``)."""

    _is_transient = True
    #: The object, to ask the server how long to wait.
    _path: str | None = None


class RemoteUnavailableError(RemoteError, ConnectionError):
    """The server could not be reached, failed (5xx), or closed the connection too early, at every attempt."""

    _is_transient = True
    _errno = errno.ECONNABORTED


class RemoteTimeoutError(RemoteError, TimeoutError):
    """The store sent no complete answer within the time limit."""

    _is_transient = True
    _errno = errno.ETIMEDOUT


class RemotePackageError(RemoteError, ImportError):
    """The optional package for this kind of store is not installed. The message names the extra."""
