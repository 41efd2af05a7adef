"""Objects in buckets, on web servers and in folders: read by range, with retries, and cached on a local disk.

Names are imported on first use. Importing this package loads no library of a store. The first request does, and raises
``RemotePackageError`` if it is not installed: ``pip install 'spdl-native[remote]'``.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(),
    {
        "._cache": "DiskCache",
        "._client": "Located ObjectInfo",
        "._errors": "RemoteChangedError RemoteDeniedError RemoteError RemoteNotFoundError RemoteOfflineError "
        "RemotePackageError RemoteRangeError RemoteThrottledError RemoteTimeoutError RemoteUnavailableError",
        "._object": "RemoteObject",
        "._store": "RemoteStore",
    },
)
