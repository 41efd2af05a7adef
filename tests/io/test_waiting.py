"""Sources that give no data: a timeout and Ctrl-C end the waiting, whoever waits for what."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spdl.io
from tests.io.pictures import make_jpeg
from tests.support.media import clip, pictures

SOON = spdl.io.demux_config(timeout=0.02)


def listening() -> tuple[socket.socket, str]:
    """A server that takes connections and never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    return server, f"http://127.0.0.1:{server.getsockname()[1]}/x.jpg"


WAITING: dict[str, Callable[[str], object]] = {
    "demuxer": lambda source: spdl.io.Demuxer(source, demux_config=SOON),
    "image": lambda source: spdl.io.load_image(source, demux_config=SOON),
    "upright image": lambda source: spdl.io.load_image(source, demux_config=SOON, orient=True),
}


@pytest.mark.parametrize("use", WAITING)
def test_a_pipe_nobody_writes_to_ends_at_the_timeout(use: str, tmp_path: Path) -> None:
    """Opening it does not wait for ever, and the error is one of media and a TimeoutError."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TimeoutError, match=r"longer than the timeout of 0\.02 s") as caught:
        WAITING[use](str(tmp_path / "pipe"))
    error = caught.value
    assert isinstance(error, spdl.io.SourceTimeoutError)
    assert isinstance(error, spdl.io.OpenError)
    assert isinstance(error, spdl.io.DemuxError)
    assert (error.source, error.action) == (str(tmp_path / "pipe"), "open")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.source) == (type(error), str(error), error.source)


@pytest.mark.needs("protocol http")
@pytest.mark.parametrize("use", WAITING)
def test_a_server_that_does_not_answer_ends_at_the_timeout(use: str) -> None:
    """Whether its data would be demuxed or read whole."""
    server, url = listening()
    with server, pytest.raises(spdl.io.SourceTimeoutError, match="timeout of"):
        WAITING[use](url)


def test_a_pipe_that_stalls_ends_at_the_timeout_of_reading(tmp_path: Path) -> None:
    """Tolerance is for damage, and does not make an end of it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = clip("stalled.ts", *pictures(duration=2), "-c:v", "mpeg2video", "-f", "mpegts").read_bytes()
    config = spdl.io.demux_config(timeout=0.2, tolerate_errors=True, format_options={"probesize": 10_000})
    with open(os.open(path, os.O_RDWR), "wb", buffering=0) as writer:
        writer.write(data[:60_000])
        with (
            spdl.io.Demuxer(path, demux_config=config) as demuxer,
            pytest.raises(spdl.io.SourceTimeoutError, match="cannot read") as caught,
        ):
            demuxer.demux_video()
        assert caught.value.action == "read"


def test_a_pipe_is_read_as_its_writer_goes_on(tmp_path: Path) -> None:
    """Also one that is larger than any guess about it, and that is not there yet."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    jpeg = make_jpeg(640, 480)
    data = jpeg + bytes(300_000)  # what is behind a picture's end does not matter

    def write() -> None:
        path.write_bytes(data)

    for load in (
        lambda: spdl.io.load_image_batch([path], width=8, height=8),
        lambda: spdl.io.load_image(path),
        lambda: spdl.io.load_image(path, demux_config=spdl.io.demux_config(timeout=10), orient=True),
    ):
        writer = threading.Thread(target=write)
        writer.start()
        assert load().shape[-1] == 3  # type: ignore[no-untyped-call, unused-ignore]
        writer.join()


@pytest.mark.needs("protocol http")
def test_a_connection_that_breaks_is_not_the_end_of_the_data() -> None:
    """MPEG-TS says nowhere how long it is, but HTTP does."""
    data = clip("broken.ts", *pictures(duration=2), "-c:v", "mpeg2video", "-f", "mpegts").read_bytes()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(10_000)
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 10000000\r\n\r\n" + data)

    server, url = listening()
    with server:
        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(spdl.io.DemuxError, match="cannot read http"):
            spdl.io.demux_video(url)
        thread.join()


CHILD = """
import sys
import spdl.io

*pipes, url = sys.argv[1:]
calls = (
    lambda: spdl.io.Demuxer(pipes[0]),
    lambda: spdl.io.load_image(pipes[1]),
    lambda: spdl.io.load_image_batch([pipes[2]], width=8, height=8),
    lambda: spdl.io.load_image_batch([pipes[3], pipes[3]], transform=spdl.io.ImageTransform((8, 8)), num_threads=2),
    lambda: spdl.io.load_image_batch([pipes[4]] * 2, width=8, height=8, filter_desc="hflip", num_threads=2),
    lambda: spdl.io.Demuxer(url),
    lambda: spdl.io.load_image(url),
    lambda: spdl.io.load_image_batch([url], width=8, height=8),
)
for call in calls:
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print("done")
"""


@pytest.mark.needs("protocol http")
@pytest.mark.slow
def test_ctrl_c_ends_every_blocked_read(tmp_path: Path) -> None:
    """Of pipes and servers, by whatever call, also where other threads of the call wait."""
    pipes = [tmp_path / str(index) for index in range(5)]
    for pipe in pipes:
        os.mkfifo(pipe)
    server, url = listening()
    command: list[Any] = [sys.executable, "-c", CHILD, *pipes, url]
    with server, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            for pipe in pipes:
                with pipe.open("wb"):  # which waits until the child has opened it
                    child.send_signal(signal.SIGINT)
                    assert child.stdout.readline() == "interrupted\n"
            for _ in range(3):
                connection, _address = server.accept()
                with connection:
                    child.send_signal(signal.SIGINT)
                    assert child.stdout.readline() == "interrupted\n"
            assert child.stdout.readline() == "done\n"
        finally:
            child.kill()
