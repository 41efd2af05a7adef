"""Find objects in a dataset that threads cannot share: they have one position, or belong to one thread.

The search looks at attributes, elements and closures, calls nothing of the user's, and is bounded. It knows classes by
name, so it imports no library. Imports nothing from spdl.
"""

import copy
import functools
import os
import stat
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

#: Classes by module and name, with what they are; subclasses count. The first matching base class decides.
_CLASSES: Final = {
    ("zipfile", "ZipFile"): "a zip archive",
    ("tarfile", "TarFile"): "a tar archive",
    ("sqlite3", "Connection"): "an SQLite connection",
    ("sqlite3", "Cursor"): "an SQLite cursor",
    ("lmdb", "Environment"): "an LMDB environment",
    ("lmdb", "Transaction"): "an LMDB transaction",
    ("lmdb", "Cursor"): "an LMDB cursor",
    ("builtins", "Environment"): "an LMDB environment",  # so the types of its C extension are named
    ("builtins", "Transaction"): "an LMDB transaction",
    ("builtins", "Cursor"): "an LMDB cursor",
    ("h5py", "HLObject"): "an HDF5 object",
    ("h5py", "ObjectID"): "an HDF5 object",
    ("netCDF4", "Dataset"): "a netCDF file",
    ("netCDF4", "Variable"): "a netCDF file",
    ("scipy", "netcdf_file"): "a netCDF file",
    ("tables", "File"): "an HDF5 file",
    ("tables", "Node"): "an HDF5 object",
    ("pyarrow", "NativeFile"): "an Arrow file",
    ("pyarrow", "ParquetFile"): "a Parquet file",
    ("pyarrow", "ParquetReader"): "a Parquet file",
    ("pyarrow", "RecordBatchFileReader"): "an Arrow file",
    ("pyarrow", "_RecordBatchFileReader"): "an Arrow file",
    ("pyarrow", "RecordBatchReader"): "an Arrow stream",
    ("PIL", "Image"): "a Pillow image, which reads its file on first use",
    ("cv2", "VideoCapture"): "a video reader",
    ("av", "Container"): "a media container",
    ("decord", "VideoReader"): "a video reader",
    ("torchcodec", "VideoDecoder"): "a video decoder",
    ("torchcodec", "AudioDecoder"): "an audio decoder",
    ("soundfile", "SoundFile"): "an audio file",
    ("wave", "Wave_read"): "an audio file",
    ("rasterio", "DatasetBase"): "a raster file",
    ("tifffile", "TiffFile"): "a TIFF file",
    ("mmap", "mmap"): "a memory map with a position",
    ("socket", "socket"): "a socket",
    ("ssl", "SSLSocket"): "a socket",
    ("http", "HTTPConnection"): "a connection",
    ("psycopg2", "connection"): "a database connection",
    ("psycopg", "BaseConnection"): "a database connection",
    ("pymysql", "Connection"): "a database connection",
    ("duckdb", "DuckDBPyConnection"): "a database connection",
    ("multiprocessing", "_ConnectionBase"): "a connection",
}
#: Base classes of files, of the standard library and others; compressed ones too.
_FILE: Final = "_io", "_IOBase"
_WRITTEN: Final = "a file that is written"
#: Those that several threads may use in the usual way: the library has a lock, or a way around the position. If
#: processes cannot be started, threads are right too.
_SERIAL: Final = frozenset({"an LMDB environment", "an HDF5 object", "a memory map with a position", _WRITTEN})
#: Types that hold no objects of the user.
_LEAVES: Final = (
    str,
    bytes,
    bytearray,
    memoryview,
    int,
    float,
    complex,
    bool,
    type(None),
    type,
    types.ModuleType,
    range,
)
#: Packages whose objects hold arrays, and are not searched; subclasses of the user's are.
_OPAQUE: Final = frozenset({"numpy", "torch", "pandas", "threading", "logging", "_thread", "queue", "weakref"})
#: Most objects that are looked at, elements of a container, and attributes on the way.
_MOST_OBJECTS: Final = 5_000
_MOST_ELEMENTS: Final = 64
_MOST_STEPS: Final = 12
#: Names of attributes whose integers may be file descriptors.
_DESCRIPTOR_NAMES: Final = "fd", "fileno", "file_descriptor", "descriptor"


class Bound(NamedTuple):
    """An object that threads cannot share."""

    where: str  #: ``dataset.reader.file``
    what: str  #: ``an open file``
    is_serial: bool  #: whether threads are safe, but wait for each other
    is_number: bool  #: whether it is a file descriptor, which another process does not have

    @property
    def is_owned(self) -> bool:
        """Whether only the thread that made it may use it, so that a single other thread fails too."""
        return self.what.startswith("an SQLite")

    def __str__(self) -> str:
        return f"{self.where} is {self.what}"


def find_bound(**roots: Any) -> Bound | None:
    """The first object below ``roots`` that threads cannot share, the nearest; those only slow come last."""
    serial = None
    for where, value, _ in _walk(roots):
        what = _kind_of(value)
        if what is not None:
            found = Bound(where, what, what in _SERIAL, is_number=False)
            if not found.is_serial:
                return found
            serial = serial or found
        elif type(value) is int and _is_descriptor(where, value):
            return Bound(where, "an open file descriptor", is_serial=False, is_number=True)
    return serial


def copy_of(dataset: Any) -> Any:
    """A copy whose first uses do not change ``dataset``: also of the datasets and transforms that it holds.

    Data is shared. Parts that hold something that is open are shared too: a copy might close it. For the same reason,
    a finalizer of the dataset is not called for the copy.
    """
    if isinstance(dataset, list | tuple | dict):  # they open no files, and copies would be expensive
        return dataset
    copied = dataset
    with suppress(Exception):  # __copy__, __reduce__ and __getstate__ are user code
        copied = _without_finalizer(copy.copy(dataset), dataset)
    if copied is dataset or find_bound(dataset=dataset) is not None:
        return copied
    _copy_parts(copied, {id(dataset): copied}, 0)
    return copied


def _without_finalizer(copied: Any, dataset: Any) -> Any:
    kind = type(copied)
    if copied is not dataset and hasattr(kind, "__del__"):
        own = {"__slots__": (), "__module__": kind.__module__, "__del__": lambda self: None}
        copied.__class__ = type(kind.__name__, (kind,), own)
    return copied


def _copy_parts(owner: Any, copies: dict[int, Any], depth: int) -> None:
    """Replace the objects in the attributes of ``owner``, which is a copy, by copies."""
    attributes = _dict_of(owner)
    if attributes is None or depth > _MOST_STEPS:
        return
    for name, value in list(attributes.items()):
        changed = _copied(value, copies, depth)
        if changed is not value:
            attributes[name] = changed


def _copied(value: Any, copies: dict[int, Any], depth: int) -> Any:
    if id(value) in copies:
        return copies[id(value)]
    kind = type(value)
    if kind in (list, tuple, dict):
        if len(value) > _MOST_ELEMENTS:
            return value
        elements = value.values() if kind is dict else value
        changed = [_copied(each, copies, depth + 1) for each in elements]
        if all(new is old for new, old in zip(changed, elements, strict=True)):
            return value
        return dict(zip(value, changed, strict=True)) if kind is dict else kind(changed)
    if not _may_copy(kind) or len(copies) >= _MOST_OBJECTS:
        return value
    try:
        copied = copy.copy(value)
    except Exception:  # noqa: BLE001 - of the user's code: it is shared
        return value
    if type(copied) is kind and copied is not value:
        copies[id(value)] = copied
        _copy_parts(copied, copies, depth + 1)
        return copied
    return value


def _may_copy(kind: type) -> bool:
    """Whether a class is one in Python, whose copies are independent and do nothing when they are collected."""
    if issubclass(kind, _LEAVES) or kind.__flags__ & (1 << 9) == 0:  # Py_TPFLAGS_HEAPTYPE: made by a class statement
        return False
    if hasattr(kind, "__del__") or _package_of(kind) in _OPAQUE - {"torch"}:
        return False
    if _package_of(kind) == "torch" and not kind.__module__.startswith("torch.utils.data"):
        return False
    return all(base.__module__.partition(".")[0] != "multiprocessing" for base in kind.__mro__)


def _walk(roots: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Objects that can be reached, with how, nearest first."""
    seen: set[int] = set()
    todo = deque((name, value, 0) for name, value in roots.items())
    while todo and len(seen) < _MOST_OBJECTS:
        where, value, depth = todo.popleft()
        yield where, value, depth
        if issubclass(type(value), _LEAVES) or id(value) in seen or depth >= _MOST_STEPS:
            continue
        seen.add(id(value))
        todo.extend((path, part, depth + 1) for path, part in _parts_of(where, value))


def _parts_of(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if kind in (list, tuple, set, frozenset, deque):
        yield from ((f"{where}[{number}]", each) for number, each in _first(value))
    elif issubclass(kind, dict):
        with suppress(RuntimeError):  # another thread has changed it
            yield from ((f"{where}[...]", each) for _, each in _first(dict.values(value)))
    elif kind is functools.partial:
        yield f"{where}.func", value.func
        yield from ((f"{where}.args", each) for each in (*value.args, *value.keywords.values()))
    elif kind is types.MethodType:
        yield f"{where}.__self__", value.__self__
    elif kind is types.FunctionType:
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or (), strict=False):
            with suppress(ValueError):  # an empty cell
                yield f"{where}: {name}", cell.cell_contents
    if _package_of(kind) in _OPAQUE and not kind.__module__.startswith("torch.utils.data"):
        if kind.__module__ in ("threading", "_thread") and kind.__name__ in ("local", "_local"):
            return  # each thread has its own
        if kind.__module__.partition(".")[0] != "torch":
            return
    attributes = _dict_of(value)
    if attributes is not None and not issubclass(kind, types.FunctionType):
        yield from ((f"{where}.{name}", each) for name, each in list(attributes.items())[:_MOST_ELEMENTS])
    for base in kind.__mro__:
        for name, slot in list(vars(base).items()):
            if isinstance(slot, types.MemberDescriptorType) and kind.__flags__ & (1 << 9):
                with suppress(AttributeError):
                    yield f"{where}.{name}", slot.__get__(value)


def _first(elements: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    return zip(range(_MOST_ELEMENTS), elements, strict=False)


def _dict_of(value: Any) -> dict[str, Any] | None:
    """The attributes, without a ``__getattr__`` or property of the user."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 - it has none, or a class of the user hides it
        return None
    return attributes if type(attributes) is dict else None


def _package_of(kind: type) -> str:
    module = kind.__module__
    return module.partition(".")[0] if isinstance(module, str) else ""


def _kind_of(value: Any) -> str | None:
    """What an object is that threads cannot share; ``None``: not known to be one."""
    for base in type(value).__mro__:
        module = base.__module__ if isinstance(base.__module__, str) else ""
        if (module, base.__name__) == _FILE:
            return _kind_of_file(value)
        package = module.partition(".")[0]
        found = _CLASSES.get((package, base.__name__)) or _CLASSES.get((package.lstrip("_"), base.__name__))
        if found is not None:
            attributes = _dict_of(value) or {}
            return None if "fp" in attributes and attributes["fp"] is None else found  # closed, or read to its end
    return None


def _kind_of_file(value: Any) -> str | None:
    """The same for a file. Only classes of the standard library are asked whether it is closed."""
    if any(value is each for each in (sys.stdin, sys.stdout, sys.stderr)):
        return None
    if _package_of(type(value)) in ("_io", "io", "gzip", "bz2", "lzma", "zipfile", "tarfile", "tempfile"):
        try:
            return None if value.closed else "an open file" if value.readable() else _WRITTEN
        except Exception:  # noqa: BLE001 - detached
            return None
    return "an open file"


def _is_descriptor(where: str, value: int) -> bool:
    """Whether an integer is, by its name and by what it refers to, a descriptor of an open file."""
    name = where.rpartition(".")[2].lstrip("_").lower()
    if value <= 2 or not (name in _DESCRIPTOR_NAMES or name.endswith(("_fd", "_fileno", "_descriptor"))):
        return False
    try:
        return stat.S_ISREG(os.fstat(value).st_mode)
    except (OSError, OverflowError):
        return False
