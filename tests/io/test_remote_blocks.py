"""Large media in object stores: the same results as from files, of which only what is needed is read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.io import (
    BatchLoadError,
    Demuxer,
    ImageTransform,
    MediaError,
    OpenError,
    SourceTimeoutError,
    demux_config,
    load_audio,
    load_audio_batch,
    load_video,
    load_video_clips,
    probe,
    to_numpy,
)
from spdl.remote import DiskCache, RemoteChangedError, RemoteNotFoundError, RemoteObject, RemoteStore
from tests.support.child import run_child
from tests.support.media import clip, pictures, tones
from tests.support.object_server import Fault, ObjectServer, serve, serve_faults, warm_up

pytest.importorskip("obstore")

_OPTIONS = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> None:
    warm_up()


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    """A server without objects."""
    with serve() as running:
        yield running


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks for which the clips of tests are large."""
    for name, value in {"_START": 4096, "_WHOLE": 8192, "_JUMP": 4096, "_MOST": 65536, "_ALIGNMENT": 64}.items():
        monkeypatch.setattr(f"spdl.remote._object.{name}", value)


def _store(server: Any, **arguments: Any) -> RemoteStore:
    return RemoteStore("s3://bucket/", options=_OPTIONS | {"endpoint": server.url}, **arguments)


def _put(server: ObjectServer, path: Path) -> RemoteObject:
    """An object with the content of a file."""
    server.objects[f"bucket/{path.name}"] = path.read_bytes()
    return RemoteObject(_store(server), path.name)


_KEYS = ("-g", "25", "-pix_fmt", "yuv420p")


def _video(name: str = "long.mp4", *options: str) -> Path:
    """A minute, with a key frame per second."""
    return clip(name, *pictures(size="96x64", duration=60), "-c:v", "libx264", *_KEYS, *options)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("name", "options"),
    [("long.mp4", ()), ("start.mp4", ("-movflags", "+faststart")), ("long.mkv", ()), ("long.ts", ())],
)
def test_window_of_a_long_video_reads_what_it_needs(name: str, options: tuple[str, ...], server: ObjectServer) -> None:
    """The index of an MP4 is at its end unless it was moved; the others are searched."""
    path = _video(name, *options)
    source = _put(server, path)
    found = to_numpy(load_video(source, (40.0, 40.5)))
    assert np.array_equal(found, to_numpy(load_video(path, (40.0, 40.5))))
    assert server.asked("HEAD") == []
    size = path.stat().st_size
    assert size > 200_000, size
    assert server.num_bytes_asked() < size / 2, [request.headers.get("range") for request in server.requests]


@pytest.mark.usefixtures("small_blocks")
def test_index_at_the_end_costs_two_jumps(server: ObjectServer) -> None:
    """To the index, and to the pictures; and what follows them."""
    source = _put(server, _video())
    with Demuxer(source) as demuxer:
        assert str(demuxer.info)
        num_requests = len(server.requests)
        assert len(demuxer.demux_video((40.0, 40.2))) == 5
        assert len(server.requests) <= num_requests + 2


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_whole_video_is_read_once(server: ObjectServer) -> None:
    """By requests that become larger, so they are few."""
    path = _video("start.mp4", "-movflags", "+faststart")
    source = _put(server, path)
    assert np.array_equal(to_numpy(load_video(source)), to_numpy(load_video(path)))
    size = path.stat().st_size
    assert server.num_bytes_asked() <= size
    assert len(server.requests) <= 6 + size / 65536


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["long.flac", "long.wav", "long.mp3", "long.ogg"])
def test_window_of_a_long_sound_reads_what_it_needs(name: str, server: ObjectServer) -> None:
    """With and without resampling."""
    # Ogg is looked at in five places first: where it begins and ends, and whether another sound begins in between.
    duration = 480 if name == "long.ogg" else 120
    path = clip(name, *tones(duration=duration, sample_rate=16_000, expression="random(0)-0.5"))
    source = _put(server, path)
    window = (100.0, 100.5)
    assert np.array_equal(to_numpy(load_audio(source, window)), to_numpy(load_audio(path, window)))
    options: dict[str, Any] = {"sample_rate": 8000, "num_samples": 4000}
    assert np.array_equal(
        to_numpy(load_audio(source, window, **options)), to_numpy(load_audio(path, window, **options))
    )
    assert server.num_bytes_asked() < path.stat().st_size


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_clips_and_sounds_of_batches_are_read_in_parts(server: ObjectServer) -> None:
    """By several threads; one that is missing and one that is damaged are failures of their own."""
    path = _video()
    source = _put(server, path)
    server.objects["bucket/bad"] = bytes(20_000)
    sources: list[Any] = [source, RemoteObject(source.store, "gone"), path, RemoteObject(source.store, "bad"), source]
    options: dict[str, Any] = {"transform": ImageTransform((32, 32)), "num_frames": 4, "num_threads": 2}
    batch = load_video_clips(sources, start=30.0, strict=False, **options)
    assert np.array_equal(to_numpy(batch), to_numpy(load_video_clips([path] * 3, start=30.0, **options)))
    gone, bad = batch.failures
    assert (gone.index, type(gone.error)) == (1, RemoteNotFoundError)
    assert (bad.index, isinstance(bad.error, MediaError)) == (3, True)
    assert "s3://bucket/bad" in str(bad.error)
    assert server.num_bytes_asked() < 2 * path.stat().st_size
    sound = clip("long.flac", *tones(duration=120, sample_rate=16_000, expression="random(0)-0.5"))
    found = load_audio_batch([_put(server, sound), sound], start=50.0, num_samples=1000, sample_rate=8000)
    assert np.array_equal(to_numpy(found)[0], to_numpy(found)[1])


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 8192])
@pytest.mark.usefixtures("small_blocks")
def test_small_object_is_read_whole(size: int, server: ObjectServer) -> None:
    """By two requests at most, and its errors are those of memory."""
    data = server.objects["bucket/x"] = bytes(range(256)) * 40
    data = server.objects["bucket/x"] = data[:size]
    assert bytes(RemoteObject(_store(server), "x").__spdl_open__()) == data  # type: ignore[arg-type]  # bytes
    assert len(server.requests) == (1 if 0 < size <= 4096 else 2)
    with pytest.raises(OpenError, match="s3://bucket/x"):
        load_video(RemoteObject(_store(server), "x"))


def test_short_clip_takes_one_request(server: ObjectServer) -> None:
    """As long as it fits into the first block."""
    path = _video()
    assert len(to_numpy(load_video(_put(server, path), (1, 2)))) == 25
    assert len(server.requests) == 1


@pytest.mark.usefixtures("small_blocks")
def test_server_without_ranges_sends_the_whole_object(server: ObjectServer) -> None:
    """Once."""
    server.has_ranges = False
    path = _video()
    assert np.array_equal(to_numpy(load_video(_put(server, path), (1, 2))), to_numpy(load_video(path, (1, 2))))
    assert len(server.requests) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_cached_blocks_are_read_from_the_disk(server: ObjectServer, tmp_path: Path) -> None:
    """Whole blocks of the cache; the second time none is requested."""
    path = _video()
    _put(server, path)
    for block_size in (8192, None):
        store = _store(server, cache=DiskCache(tmp_path / str(block_size), "10MB", block_size=block_size))
        source = RemoteObject(store, path.name)
        expected = to_numpy(load_video(path, (40.0, 40.5)))
        server.requests.clear()
        assert np.array_equal(to_numpy(load_video(source, (40.0, 40.5))), expected)
        assert (server.num_bytes_asked() < path.stat().st_size / 2) == (block_size is not None)
        server.requests.clear()
        assert np.array_equal(to_numpy(load_video(source, (40.0, 40.5))), expected)
        assert server.requests == []
        again = RemoteObject(_store(server, cache=store.cache), path.name)
        assert np.array_equal(to_numpy(load_video(again, (40.0, 40.5))), expected)
        assert len(server.requests) == 1  # that it is the same version
        assert server.num_bytes_asked() == 0


@pytest.mark.usefixtures("small_blocks")
def test_object_that_is_replaced_meanwhile_is_an_error(server: ObjectServer) -> None:
    """Two versions are never mixed. The error is that of the store."""
    source = _put(server, _video())
    with Demuxer(source) as demuxer:
        server.objects["bucket/long.mp4"] = bytes(1_000_000)
        with pytest.raises(RemoteChangedError, match=r"s3://bucket/long\.mp4") as caught:
            demuxer.demux_video((30, 31))
        assert caught.traceback
        with pytest.raises(RemoteChangedError):  # and stays one
            demuxer.demux_video((30, 31))


@pytest.mark.usefixtures("small_blocks")
def test_object_that_vanishes_is_the_error_of_the_store(server: ObjectServer) -> None:
    """Of one source, and of one in a batch, whose errors are tolerated or not."""
    path = _video("start.mp4", "-movflags", "+faststart")
    source = _put(server, path)

    class Vanishing:
        """An object that is removed once it is open."""

        def __spdl_fetch__(self) -> bytes:
            raise AssertionError

        def __spdl_open__(self) -> Any:
            _put(server, path)
            blocks = source.__spdl_open__()
            server.objects.clear()
            return blocks

        def __str__(self) -> str:
            return "vanishing"

    with pytest.raises(RemoteNotFoundError, match=r"s3://bucket/start\.mp4"):
        load_video(Vanishing())
    with pytest.raises(RemoteNotFoundError):
        load_video(Vanishing(), demux_config=demux_config(tolerate_errors=True))
    options: dict[str, Any] = {"transform": ImageTransform((32, 32)), "num_frames": 4, "start": 30.0}
    batch = load_video_clips([Vanishing(), path], strict=False, num_threads=2, **options)
    (failure,) = batch.failures
    assert (failure.index, type(failure.error)) == (0, RemoteNotFoundError)
    with pytest.raises(BatchLoadError):
        load_video_clips([Vanishing(), path], **options)


@pytest.mark.usefixtures("small_blocks")
def test_probe_reads_little(server: ObjectServer) -> None:
    """The beginning and the index."""
    path = _video()
    assert probe(_put(server, path)).duration == probe(path).duration
    assert server.num_bytes_asked() < path.stat().st_size / 2


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_silent_server_ends_at_the_time_limit(server: ObjectServer) -> None:
    """Of opening, and of reading."""
    source = _put(server, _video())
    with serve_faults(server, lambda request, number: Fault("stall") if number > 0 else None) as proxy:
        with pytest.raises(SourceTimeoutError, match=r"bucket/long.mp4.*0\.3 s"):
            load_video(RemoteObject(_store(proxy), "long.mp4"), demux_config=demux_config(timeout=0.3))
        assert "stall" in proxy.faults
    del source


@pytest.mark.slow
@pytest.mark.parametrize("is_batch", [False, True])
def test_ctrl_c_ends_reading_from_a_silent_server(is_batch: bool) -> None:
    """Within a second or two, not at the time limit of the request; also where other threads read."""
    run_child(f"""
        import os, signal
        from spdl.io import ImageTransform, load_video, load_video_clips
        from spdl.remote import RemoteObject, RemoteStore, _object
        from tests.io.test_remote_blocks import _OPTIONS, _put, _video
        from tests.support.object_server import Fault, serve, serve_faults

        _object._START, _object._WHOLE = 4096, 8192
        signals = []

        def plan(request, number):
            if number < {2 if is_batch else 1}:
                return None
            if not signals:
                signals.append(os.kill(os.getpid(), signal.SIGINT))
            return Fault("stall")

        with serve() as server:
            _put(server, _video())
            with serve_faults(server, plan) as proxy:
                store = RemoteStore("s3://bucket/", options=_OPTIONS | {{"endpoint": proxy.url}})
                source = RemoteObject(store, "long.mp4")
                try:
                    if {is_batch}:
                        options = {{"transform": ImageTransform((32, 32)), "num_frames": 4, "num_threads": 2}}
                        load_video_clips([source, source], start=30.0, **options)
                    else:
                        load_video(source, (30, 31))
                except KeyboardInterrupt:
                    print("interrupted")
    """).check("interrupted")


@pytest.mark.slow
def test_large_video_is_read_in_parts(server: ObjectServer) -> None:
    """With the blocks of users."""
    path = clip("large.mp4", *pictures(size="640x480", duration=40), "-c:v", "mjpeg", "-q:v", "2")
    size = path.stat().st_size
    assert size > 20_000_000, size
    source = _put(server, path)
    assert np.array_equal(to_numpy(load_video(source, (30, 30.1))), to_numpy(load_video(path, (30, 30.1))))
    assert server.num_bytes_asked() < 5_000_000
    assert len(server.requests) <= 5


def test_blocks_grow_where_the_reader_reads_on(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """At several places at a time, and begin small where it jumps to."""
    for name, value in {"_START": 100, "_WHOLE": 100, "_JUMP": 10, "_MOST": 40, "_ALIGNMENT": 5}.items():
        monkeypatch.setattr(f"spdl.remote._object.{name}", value)
    data = server.objects["bucket/x"] = bytes(range(256)) * 4
    blocks: Any = RemoteObject(_store(server), "x").__spdl_open__()
    assert (str(blocks), blocks.__spdl_size__) == ("s3://bucket/x", 1024)
    for position, start, stop in (
        (50, 0, 100),
        (100, 100, 120),
        (500, 500, 510),
        (120, 120, 160),
        (510, 510, 530),
        (160, 160, 200),
        (1023, 1020, 1024),
        (101, 100, 110),
    ):
        assert blocks.__spdl_block__(position, None, lambda: False) == (start, data[start:stop])
    assert blocks.__spdl_block__(300, 5.0, lambda: False) == (300, data[300:310])
