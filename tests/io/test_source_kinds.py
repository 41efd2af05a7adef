"""Sources that are no files: devices are refused, pipes are read. Errors do not depend on how data is given."""

import io
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spdl.io
from tests.io.pictures import make_jpeg, with_png_checks
from tests.support.image_mutations import seeds
from tests.support.timeouts import TIMEOUT

#: Kinds of ``seeds`` that have no levels of gray or colour.
NUMBERS = ("tiff floats", "pfm")

DEVICE = "/dev/zero"
needs_device = pytest.mark.skipif(
    not os.path.exists(DEVICE) or not stat.S_ISCHR(os.stat(DEVICE).st_mode), reason="there is no /dev/zero"
)
SINGLE: dict[str, Callable[[Any], object]] = {
    "load_image": spdl.io.load_image,
    "load_image, filtered": lambda source: spdl.io.load_image(source, filter_desc=None),
    "load_image, configured": lambda source: spdl.io.load_image(source, demux_config=spdl.io.demux_config()),
    "load_video": spdl.io.load_video,
    "load_audio": spdl.io.load_audio,
    "demux_image": spdl.io.demux_image,
    "demux_video": spdl.io.demux_video,
    "demux_audio": spdl.io.demux_audio,
    "Demuxer": spdl.io.Demuxer,
    "probe": spdl.io.probe,
}
BATCHES: dict[str, Callable[[Any], object]] = {
    "load_image_batch": lambda source: spdl.io.load_image_batch([source], width=8, height=8),
    "load_image_batch, filtered": lambda source: spdl.io.load_image_batch([source], width=8, height=8, pix_fmt="rgba"),
    "load_image_batch, transformed": lambda source: spdl.io.load_image_batch(
        [source], transform=spdl.io.ImageTransform(8)
    ),
    "load_audio_batch": lambda source: spdl.io.load_audio_batch([source], num_samples=8, sample_rate=8000, start=0.0),
    "load_video_clips": lambda source: spdl.io.load_video_clips([source], num_frames=1, start=0.0, size=8),
}

PICTURES = ["load_image", "load_image, filtered", "load_image_batch", "load_image_batch, transformed"]


def failure(load: Callable[[Any], object], source: Any) -> Exception | None:
    """The error of a source, also where it is that of a batch."""
    try:
        load(source)
    except spdl.io.BatchLoadError as error:
        return error.failures[0].error
    except spdl.io.MediaError as error:
        return error
    return None


@needs_device
@pytest.mark.parametrize("name", SINGLE | BATCHES)
def test_character_devices_are_refused_by_name(name: str) -> None:
    """They may have no end."""
    error = failure((SINGLE | BATCHES)[name], DEVICE)
    assert isinstance(error, spdl.io.OpenError)
    assert "it is a character device, not a file" in str(error)


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("data", [make_jpeg(40, 30), seeds()["png"]], ids=["JPEG", "PNG"])
def test_pipes_are_read(name: str, data: bytes, tmp_path: Path) -> None:
    """A pipe with a name holds a picture."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    try:
        assert failure((SINGLE | BATCHES)[name], path) is None
    finally:
        writer.join(TIMEOUT)


def broken() -> dict[str, bytes]:
    """Data that no function takes: of every format, cut in the middle, and other things."""
    cut = {name: with_png_checks(data[: len(data) // 2]) for name, data in seeds().items()}
    return {f"{name}, cut": data for name, data in cut.items()} | {
        "text": b"not a picture",
        "zeros": bytes(1000),
        "JSON": b'{"a": 1}',
        "PDF": b"%PDF-1.7\n" + bytes(100),
        "gzip": b"\x1f\x8b\x08" + bytes(50),
        "HTML": b"<!DOCTYPE html><html></html>",
        "one byte": b"\xff",
        "empty": b"",
    }


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("kind", broken())
def test_errors_are_the_same_for_paths_bytes_and_file_objects(kind: str, name: str, tmp_path: Path) -> None:
    """The type of an error, and whether there is one, depend on the data."""
    data = broken()[kind]
    path = tmp_path / "data"  # no extension: FFmpeg would take it into account
    path.write_bytes(data)
    load = (SINGLE | BATCHES)[name]
    with path.open("rb") as file:
        errors = [failure(load, source) for source in (path, data, io.BytesIO(data), file)]
    assert len({type(error) for error in errors}) == 1, errors


def test_picture_is_the_same_for_paths_bytes_and_file_objects(tmp_path: Path) -> None:
    """Of every format."""
    for kind, data in seeds().items():
        path = tmp_path / "data"
        path.write_bytes(data)
        # Numbers that are no levels of gray or colour are loaded as they are.
        options: dict[str, Any] = {"filter_desc": None} if kind in NUMBERS else {}
        loaded = [spdl.io.to_numpy(spdl.io.load_image(source, **options)) for source in (path, data, io.BytesIO(data))]
        assert all((each == loaded[0]).all() for each in loaded), kind
