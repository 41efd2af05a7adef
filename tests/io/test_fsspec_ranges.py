"""Files of fsspec: of large ones, only what is needed is read."""

import io
import wave
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from spdl.io import (
    OpenError,
    load_audio,
    load_audio_batch,
    load_image,
    load_image_batch,
    load_video,
    probe,
    to_numpy,
)
from spdl.remote import RemoteNotFoundError
from tests.support.child import run_child
from tests.support.media import clip, h264, pictures
from tests.support.object_server import serve

fsspec: Any = pytest.importorskip("fsspec")


class _Counted:
    """A file system in memory, and the sizes of what was asked of it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[int] = []
        outer = self

        class System(fsspec.AbstractFileSystem):  # type: ignore[misc]  # of any type
            protocol = "counted"
            cachable = False

            def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
                path = self._strip_protocol(path)
                if path not in outer.files:
                    raise FileNotFoundError(path)
                return {"name": path, "size": len(outer.files[path]), "type": "file"}

            def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
                return fsspec.spec.AbstractBufferedFile(self, path, mode, **kwargs)

            def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
                self.info(path)
                data = outer.files[self._strip_protocol(path)][start:end]
                outer.asked.append(len(data))
                return data

        self.system = System()

    def open(self, name: str, data: bytes) -> Any:
        """A file that is opened when it is read."""
        self.files[name] = data
        return fsspec.core.OpenFile(self.system, name)


@pytest.fixture
def counted() -> _Counted:
    """A file system without files."""
    return _Counted()


@lru_cache(maxsize=1)
def _sound() -> bytes:
    """Ten minutes of WAV: larger than what is read whole."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 8000, 0, "NONE", ""))
        writer.writeframes(np.tile(np.arange(-16000, 16000, dtype="<i2"), 150).tobytes())
    return file.getvalue()


@pytest.mark.parametrize("is_open", [False, True])
def test_a_window_reads_what_it_needs(is_open: bool, counted: _Counted) -> None:
    """Of a file that is open already, too."""
    data = _sound()
    source: Any = counted.open("sound.wav", data)
    if is_open:
        source = counted.system.open("sound.wav")
    expected = to_numpy(load_audio(data, (400.0, 400.5)))
    assert np.array_equal(to_numpy(load_audio(source, (400.0, 400.5))), expected)
    assert sum(counted.asked) < len(data) / 3, counted.asked
    assert np.array_equal(to_numpy(load_audio(source, (400.0, 400.5), num_channels=1)), expected)


def test_probe_and_batches_read_what_they_need(counted: _Counted) -> None:
    """As for objects in stores."""
    data = _sound()
    source = counted.open("sound.wav", data)
    assert probe(source).duration == 600
    batch = to_numpy(load_audio_batch([source, data], num_samples=800, sample_rate=8000, start=[400.0, 400.0]))
    assert np.array_equal(batch[0], batch[1])
    assert sum(counted.asked) < len(data) / 1.5, counted.asked


def test_pictures_and_short_clips_are_read_whole_and_once(counted: _Counted) -> None:
    """One request each."""
    picture = clip("one.png", *pictures(duration=0.04)).read_bytes()
    source = counted.open("one.png", picture)
    assert np.array_equal(to_numpy(load_image(source)), to_numpy(load_image(picture)))
    assert load_image_batch([source, picture], width=64, height=48).shape == (2, 48, 64, 3)
    assert counted.asked == [len(picture)] * 2
    counted.asked.clear()
    film = h264().read_bytes()
    assert len(to_numpy(load_video(counted.open("film.mp4", film)))) == 50
    assert counted.asked == [len(film)]


def test_errors_name_the_file(counted: _Counted) -> None:
    """By its URL: those of the file system, and those of its content."""
    with pytest.raises(RemoteNotFoundError, match=r"counted://none\.wav"):
        load_audio(fsspec.core.OpenFile(counted.system, "none.wav"))
    with pytest.raises(OpenError, match=r"counted://text\.wav"):
        load_audio(counted.open("text.wav", b"no sound" * 100))


def test_a_file_system_without_sizes_is_read_whole(counted: _Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """As servers without Content-Length are."""
    data = _sound()
    source = counted.open("sound.wav", data)
    monkeypatch.setattr(counted.system, "info", lambda path, **_: {"name": path, "size": None, "type": "file"})
    assert np.array_equal(to_numpy(load_audio(source, (400.0, 400.5))), to_numpy(load_audio(data, (400.0, 400.5))))


@pytest.mark.slow
def test_http_is_read_by_ranges() -> None:
    """By fsspec's client, in a process of its own, as its thread and its connections stay."""
    pytest.importorskip("aiohttp")
    with serve() as server:
        data = _sound()
        server.objects["bucket/sound.wav"] = data
        run_child(
            f"""
            import fsspec
            from spdl.io import load_audio, to_numpy

            source = fsspec.open("{server.url}bucket/sound.wav")
            print(to_numpy(load_audio(source, (400.0, 400.5))).shape)
            """
        ).check("(1, 4000)")
        assert 0 < server.num_bytes_asked() < len(data) / 2
