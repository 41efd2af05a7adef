"""File objects as sources."""

import gzip
import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from tests.support.media import clip, h264, pictures


def _frames(source: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.load_video(source))


class _Stream:
    """A file object that can only be read, as a response of HTTP."""

    def __init__(self, data: bytes) -> None:
        self._rest = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(size)


def test_file_objects_are_read_from_their_beginning(tmp_path: Path) -> None:
    """In memory, open files, compressed ones and streams: all give what the path gives."""
    data, expected = h264().read_bytes(), _frames(h264())
    (tmp_path / "video.mp4.gz").write_bytes(gzip.compress(data, 1))
    memory = io.BytesIO(data)
    memory.seek(100)
    with h264().open("rb") as file, gzip.open(tmp_path / "video.mp4.gz") as packed, h264().open("rb", 0) as raw:
        file.seek(10)
        for source in (memory, file, packed, raw, _Stream(data)):
            assert np.array_equal(_frames(source), expected)
        assert file.tell() == 10
    assert memory.tell() == 100
    assert memory.getvalue() == data


@pytest.mark.parametrize(
    ("load", "source"),
    [
        (lambda of: spdl.io.load_image(of), "image"),
        (lambda of: spdl.io.load_image_batch([of], width=8, height=8), "image"),
        (lambda of: spdl.io.load_image_batch([of], width=8, height=8, pix_fmt="yuv444p"), "image"),
        (lambda of: spdl.io.load_image_batch([of], transform=spdl.io.ImageTransform(8)), "image"),
        (lambda of: spdl.io.load_video(of), "image"),
        (lambda of: spdl.io.load_video_clips([of], num_frames=1, size=8, start="middle"), "image"),
        (lambda of: spdl.io.load_audio(of), "sound"),
        (lambda of: spdl.io.load_audio(of, sample_rate=8000), "sound"),
        (lambda of: spdl.io.load_audio_batch([of], num_samples=9, sample_rate=8000, start=0.0), "sound"),
    ],
)
def test_a_stream_is_read_once(load: Callable[[Any], Any], source: str) -> None:
    """By whatever loads it: what cannot seek is empty the second time."""
    memory = io.BytesIO()
    if source == "image":
        Image.linear_gradient("L").convert("RGB").resize((16, 12)).save(memory, "PNG")
    else:
        with wave.open(memory, "wb") as writer:
            writer.setparams((1, 2, 8000, 0, "NONE", ""))
            writer.writeframes(bytes(range(200)))
    found, expected = load(_Stream(memory.getvalue())), load(memory.getvalue())
    assert np.array_equal(spdl.io.to_numpy(found), spdl.io.to_numpy(expected))


@pytest.mark.parametrize("protocol", ["file", "memory"])
def test_files_that_fsspec_opens_when_they_are_read_are_sources(protocol: str) -> None:
    """As ``fsspec.open`` gives them: open or not, compressed or not, and several times."""
    fsspec = pytest.importorskip("fsspec")
    url = str(h264()) if protocol == "file" else "memory://video.mp4"
    if protocol == "memory":
        fsspec.filesystem("memory").pipe("/video.mp4", h264().read_bytes())
    file, expected = fsspec.open(url), _frames(h264())
    assert np.array_equal(_frames(file), expected)
    assert np.array_equal(_frames(file), expected)
    with file as opened:
        assert np.array_equal(_frames(opened), expected)
    assert spdl.io.probe(file).duration == 2
    clips = spdl.io.load_video_clips([file, fsspec.open(url)], num_frames=2, size=(48, 64), start="middle")
    assert clips.shape == (2, 3, 2, 48, 64)
    with pytest.raises(TypeError, match="binary"):
        spdl.io.load_video(fsspec.open(url, "r", encoding="latin-1"))


def test_an_open_file_counts_and_not_what_has_its_name_now(tmp_path: Path) -> None:
    """A file that was replaced or removed is read by what is open."""
    path = tmp_path / "video.mp4"
    path.write_bytes(h264().read_bytes())
    with path.open("rb") as file:
        path.unlink()
        assert len(_frames(file)) == 50
        path.write_bytes(b"something else")
        assert len(_frames(file)) == 50


def test_unwritten_bytes_of_a_file_are_read(tmp_path: Path) -> None:
    """What Python still holds back is written first."""
    with (tmp_path / "video.mp4").open("w+b") as file:
        file.write(h264().read_bytes())
        assert len(_frames(file)) == 50


def test_batches_and_images_take_file_objects() -> None:
    """Wherever a source is taken."""
    picture = clip("one.png", *pictures(duration=0.04))
    with picture.open("rb") as file:
        assert spdl.io.load_image(file).shape == (48, 64, 3)
        batch = spdl.io.load_image_batch([file, io.BytesIO(picture.read_bytes())], width=64, height=48)
    assert batch.shape == (2, 48, 64, 3)
    assert spdl.io.probe(io.BytesIO(h264().read_bytes())).duration == 2


@pytest.mark.parametrize("source", [io.StringIO("text"), object(), 5])
def test_what_is_no_binary_file_is_refused(source: Any) -> None:
    """Text files, and what has no read()."""
    with pytest.raises(TypeError):
        spdl.io.load_video(source)


def test_errors_of_a_file_object_reach_the_caller() -> None:
    """As they are; a file that was closed is an error of its own."""

    class Broken:
        def read(self, size: int = -1) -> bytes:
            raise OSError("the connection was lost")

    with pytest.raises(OSError, match="the connection was lost"):
        spdl.io.load_video(Broken())
    file = h264().open("rb")
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        spdl.io.load_video(file)
