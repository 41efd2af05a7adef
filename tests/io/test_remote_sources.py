"""Sources in object stores: the same results as from files, and errors that name the URL."""

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spdl.io import (
    BatchLoadError,
    Demuxer,
    ImageTransform,
    MediaError,
    OpenError,
    demux_config,
    load_audio,
    load_audio_batch,
    load_image,
    load_image_batch,
    load_video,
    load_video_clips,
    probe,
    to_numpy,
)
from spdl.remote import DiskCache, RemoteNotFoundError, RemoteObject, RemoteStore
from tests.support.media import clip, h264, tones
from tests.support.object_server import ObjectServer, serve, warm_up

pytest.importorskip("obstore")


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> None:
    warm_up()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server that the environment names, as users do; ``bucket/`` is what ``s3://bucket/`` has."""
    from spdl.remote._object import _store_at

    with serve() as server:
        for name, value in {
            "AWS_ENDPOINT": server.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        _store_at.cache_clear()
        yield server
        _store_at.cache_clear()


def _jpeg(shade: int, size: tuple[int, int] = (40, 30)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (shade, 128, 200)).save(file, "jpeg")
    return file.getvalue()


def _png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (shade, 128, 200)).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("make", [_jpeg, _png])
def test_image_is_loaded_from_a_bucket(make: Any, bucket: ObjectServer) -> None:
    """By its URL, as from memory."""
    data = bucket.objects["bucket/a/x"] = make(7)
    assert np.array_equal(to_numpy(load_image("s3://bucket/a/x")), to_numpy(load_image(data)))


def test_object_of_a_store_is_a_source(tmp_path: Path) -> None:
    """With the options and the cache of its store."""
    data = _jpeg(7)
    (tmp_path / "x.jpg").write_bytes(data)
    store = RemoteStore(tmp_path, cache=DiskCache(tmp_path / "cache", "1MB"))
    source = RemoteObject(store, "x.jpg")
    assert str(source) == (tmp_path / "x.jpg").as_uri()
    assert np.array_equal(to_numpy(load_image(source)), to_numpy(load_image(data)))
    assert np.array_equal(to_numpy(load_image_batch([source], width=8, height=8)), _batch([data]))
    assert store.cache is not None
    assert store.cache.num_bytes() > 0


def _batch(sources: list[Any], **options: Any) -> Any:
    return to_numpy(load_image_batch(sources, width=8, height=8, **options))


def test_batch_may_mix_urls_files_and_memory(bucket: ObjectServer, tmp_path: Path) -> None:
    """In both forms, and through FFmpeg's filters."""
    images = [_jpeg(1), _png(2), _jpeg(3), _jpeg(4)]
    bucket.objects |= {"bucket/1": images[0], "bucket/2": images[1]}
    (tmp_path / "3.jpg").write_bytes(images[2])
    mixed: list[Any] = ["s3://bucket/1", "s3://bucket/2", tmp_path / "3.jpg", images[3]]
    assert np.array_equal(_batch(mixed), _batch(images))
    assert np.array_equal(_batch(mixed, pix_fmt="yuv420p"), _batch(images, pix_fmt="yuv420p"))
    transform = ImageTransform(16, dtype="float32", layout="NCHW")
    for num_threads in (0, 2):
        loaded = load_image_batch(mixed, transform=transform, num_threads=num_threads)
        assert np.array_equal(to_numpy(loaded), to_numpy(load_image_batch(images, transform=transform)))


def test_failed_source_of_a_batch_is_counted_as_others_are(bucket: ObjectServer) -> None:
    """Missing or damaged: the error names the URL, and the other images are there."""
    bucket.objects |= {"bucket/1": _jpeg(1), "bucket/bad": b"no image", "bucket/3": _jpeg(3)}
    sources = ["s3://bucket/1", "s3://bucket/gone", "s3://bucket/bad", "s3://bucket/3"]
    transform = ImageTransform(8)
    for options in (
        {"width": 8, "height": 8},
        {"width": 8, "height": 8, "pix_fmt": "yuv420p"},
        {"transform": transform},
    ):
        batch = load_image_batch(sources, strict=False, **options)
        assert batch.origins == (0, 3)
        gone, bad = batch.failures
        assert (gone.index, gone.source, type(gone.error)) == (1, "s3://bucket/gone", RemoteNotFoundError)
        assert (bad.index, bad.source) == (2, "s3://bucket/bad")
        assert "s3://bucket/bad" in str(bad.error)
        assert "0x" not in str(bad.error)
        with pytest.raises(BatchLoadError, match="s3://bucket/gone"):
            load_image_batch(sources, **options)


def test_spares_may_be_urls(bucket: ObjectServer) -> None:
    """A missing one is followed by the next."""
    bucket.objects |= {"bucket/1": _jpeg(1), "bucket/spare": _jpeg(9)}
    spares = ["s3://bucket/none", "s3://bucket/spare"]
    batch = load_image_batch(["s3://bucket/gone", "s3://bucket/1"], transform=ImageTransform(8), spares=spares)
    assert batch.origins == (3, 1)
    assert [failure.index for failure in batch.failures] == [0, 2]


def test_sources_of_a_batch_are_fetched_at_the_same_time(bucket: ObjectServer) -> None:
    """Eight at least: no answer comes before eight requests have."""
    gate = threading.Barrier(8)

    class Gated:
        def __spdl_fetch__(self) -> bytes:
            gate.wait(100)
            return _jpeg(1)

    assert _batch([Gated() for _ in range(8)]).shape == (8, 8, 8, 3)


def test_video_and_audio_are_loaded_from_a_bucket(bucket: ObjectServer) -> None:
    """Whole and in windows; a demuxer too."""
    video, sound = h264(), clip("tones.flac", *tones())
    bucket.objects |= {"bucket/v.mp4": video.read_bytes(), "bucket/s.flac": sound.read_bytes()}
    assert np.array_equal(
        to_numpy(load_video("s3://bucket/v.mp4", (0.2, 0.4))), to_numpy(load_video(video, (0.2, 0.4)))
    )
    assert np.array_equal(to_numpy(load_audio("s3://bucket/s.flac")), to_numpy(load_audio(sound)))
    with Demuxer("s3://bucket/v.mp4") as demuxer:
        assert len(demuxer.demux_video()) > 0


def test_sounds_are_resampled_from_a_bucket(bucket: ObjectServer) -> None:
    """One, and a batch in which one is missing and one is damaged; ``probe`` takes URLs too."""
    sound = clip("tones.flac", *tones())
    bucket.objects |= {"bucket/s.flac": sound.read_bytes(), "bucket/bad": b"no media"}
    url = "s3://bucket/s.flac"
    options: dict[str, Any] = {"sample_rate": 4000, "num_samples": 1000}
    assert np.array_equal(
        to_numpy(load_audio(url, (0.5, 0.9), **options)), to_numpy(load_audio(sound, (0.5, 0.9), **options))
    )
    sources: list[Any] = [url, "s3://bucket/gone", sound, "s3://bucket/bad"]
    batch = load_audio_batch(sources, start=0.25, num_channels=1, strict=False, **options)
    expected = load_audio_batch([sound, sound], start=0.25, num_channels=1, **options)
    assert np.array_equal(to_numpy(batch), to_numpy(expected))
    gone, bad = batch.failures
    assert (gone.index, gone.source, type(gone.error)) == (1, "s3://bucket/gone", RemoteNotFoundError)
    assert (bad.index, "s3://bucket/bad" in str(bad.error), "0x" in str(bad.error)) == (3, True, False)
    audio = probe(url).audio
    assert audio is not None
    assert audio.sample_rate == 8000
    with pytest.raises(RemoteNotFoundError):
        load_audio("s3://bucket/gone", **options)


def test_errors_name_the_url(bucket: ObjectServer) -> None:
    """Of what is missing, and of what is damaged."""
    bucket.objects["bucket/bad"] = b"no media"
    for load in (load_image, load_video, load_audio):
        with pytest.raises(RemoteNotFoundError, match="s3://bucket/gone"):
            load("s3://bucket/gone")
        with pytest.raises(MediaError, match="s3://bucket/bad"):
            load("s3://bucket/bad")


@pytest.mark.needs("demuxer concat")
def test_playlist_from_a_bucket_opens_no_files_of_this_machine(bucket: ObjectServer, tmp_path: Path) -> None:
    """Neither by itself nor if its format is asked for."""
    path = h264()
    bucket.objects["bucket/list"] = f"ffconcat version 1.0\nfile '{path}'\n".encode()
    with pytest.raises(OpenError):
        load_video("s3://bucket/list")
    for options in ({}, {"safe": 0}):
        with pytest.raises((OpenError, MediaError)):
            load_video("s3://bucket/list", demux_config=demux_config("concat", options))
        with pytest.raises((OpenError, MediaError)):
            load_image("s3://bucket/list", demux_config=demux_config("concat", options))
        with pytest.raises(MediaError):
            load_video_clips(
                ["s3://bucket/list"], num_frames=1, size=8, start=0.0, demux_config=demux_config("concat", options)
            )
    config = demux_config("concat", {"safe": 0})
    assert len(to_numpy(load_video(bucket.objects["bucket/list"], demux_config=config))) > 0  # memory may


def test_path_object_is_a_file_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only text can be a URL."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    (tmp_path / "s3:" / "bucket" / "x.jpg").write_bytes(_jpeg(1))
    assert to_numpy(load_image(Path("s3://bucket/x.jpg"))).shape == (30, 40, 3)
