# Written by scripts/stubs from the module's table.

from ._cache import DiskCache as DiskCache
from ._client import Located as Located
from ._client import ObjectInfo as ObjectInfo
from ._errors import RemoteChangedError as RemoteChangedError
from ._errors import RemoteDeniedError as RemoteDeniedError
from ._errors import RemoteError as RemoteError
from ._errors import RemoteNotFoundError as RemoteNotFoundError
from ._errors import RemoteOfflineError as RemoteOfflineError
from ._errors import RemotePackageError as RemotePackageError
from ._errors import RemoteRangeError as RemoteRangeError
from ._errors import RemoteThrottledError as RemoteThrottledError
from ._errors import RemoteTimeoutError as RemoteTimeoutError
from ._errors import RemoteUnavailableError as RemoteUnavailableError
from ._object import RemoteObject as RemoteObject
from ._store import RemoteStore as RemoteStore

__all__ = [
    "DiskCache",
    "Located",
    "ObjectInfo",
    "RemoteChangedError",
    "RemoteDeniedError",
    "RemoteError",
    "RemoteNotFoundError",
    "RemoteObject",
    "RemoteOfflineError",
    "RemotePackageError",
    "RemoteRangeError",
    "RemoteStore",
    "RemoteThrottledError",
    "RemoteTimeoutError",
    "RemoteUnavailableError",
]
