"""The error tree of the package, and that its members travel."""

import copy
import pickle
from typing import Any

import pytest

import spdl.io
from spdl.io import LoadFailure, MediaError

ERRORS = sorted(
    (getattr(spdl.io, name) for name in spdl.io.__all__ if name.endswith("Error")), key=lambda cls: str(cls.__name__)
)
BUILTINS = {
    "SourceNotFoundError": (spdl.io.OpenError, FileNotFoundError),
    "StreamNotFoundError": (LookupError,),
    "UnknownNodeError": (spdl.io.FilterError, IndexError),
    "UnsupportedFormatError": (spdl.io.ConvertError, ValueError),
    "NoCodecError": (ValueError, AssertionError),
    "ConsumedError": (TypeError,),
    "NativeLibraryError": (ImportError,),
    "WAVError": (ValueError,),
}


def make(cls: Any) -> MediaError:
    """An error with every attribute set."""
    if cls is spdl.io.BatchLoadError:
        error = cls("what happened", failures=[LoadFailure(3, "a.jpg", ValueError("why"))])
    elif issubclass(cls, spdl.io.DecodeError | spdl.io.DemuxError):
        error = cls("what happened", source="a.mp4", action="read", code=-5, stream_index=2, pts=1.5)
    else:
        error = cls("what happened", source="a.mp4", action="read", code=-5)
    assert isinstance(error, MediaError)
    return error


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_error_is_what_it_promises(cls: Any) -> None:
    """A ``MediaError``, a ``RuntimeError``, and the builtins of its contract; its text is the message alone."""
    error = make(cls)
    assert isinstance(error, (RuntimeError, *BUILTINS.get(cls.__name__, ())))
    assert all(isinstance(error, base) for base in BUILTINS.get(cls.__name__, ()))
    assert str(error) == "what happened"


@pytest.mark.parametrize("clone", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"])
@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_error_survives_with_its_attributes(cls: Any, clone: Any) -> None:
    """Type, text, attributes and notes."""
    error = make(cls)
    error.add_note("where it happened")
    other = clone(error)
    assert type(other) is cls
    assert str(other) == str(error)
    for name in ("source", "action", "code", "stream_index", "pts", "errno", "filename", "__notes__"):
        assert getattr(other, name, None) == getattr(error, name, None)
    if cls is spdl.io.BatchLoadError:
        assert [failure.index for failure in other.failures] == [3]


def test_missing_file_is_caught_as_the_builtin() -> None:
    """``errno`` and ``filename`` are there for those who look."""
    import errno

    with pytest.raises(FileNotFoundError) as caught:
        raise make(spdl.io.SourceNotFoundError)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == "a.mp4"


def test_failure_with_a_view_as_source_travels_as_bytes() -> None:
    """A view of memory cannot go to another process."""
    failure = pickle.loads(pickle.dumps(LoadFailure(0, memoryview(b"junk"), ValueError("why"))))
    assert failure.source == b"junk"
