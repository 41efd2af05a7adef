"""Bytes that name other files or hosts: nothing beside the source is opened unless somebody asks for it."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import spdl.io
from tests.support.media import clip, h264, pictures, run_ffmpeg


class Server:
    """A server of the files in a folder, which knows what was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(outer.folder))

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                super().do_GET()

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One for each test, on the loopback."""
    server = Server(tmp_path)
    thread = threading.Thread(target=server.server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.server.shutdown()
    thread.join()
    server.server.server_close()


def segment() -> Path:
    """A second of MPEG-TS, as playlists refer to."""
    return clip("segment.ts", *pictures(duration=1), "-c:v", "mpeg2video", "-f", "mpegts")


def playlist(url: str) -> bytes:
    """HLS, of one segment."""
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{url}\n#EXT-X-ENDLIST\n".encode()


MPD = "urn:mpeg:dash:schema:mpd:2011"
HOSTILE = {
    "hls": playlist("{url}segment.ts"),
    "hls of variants": b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{url}x.m3u8\n",
    "concat": b"ffconcat version 1.0\nfile segment.ts\n",
    "dash": f'<?xml version="1.0"?><MPD xmlns="{MPD}" profiles="urn:mpeg:dash:profile:isoff-live:2011"'.encode()
    + b' type="static"><BaseURL>{url}</BaseURL></MPD>',
    "sdp": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
    b"m=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
    "vobsub": b"# VobSub index file, v7 (do not modify this line!)\nid: en, index: 0\n"
    b"timestamp: 00:00:01:000, filepos: 0\n",
}
LOADERS: dict[str, Callable[[Any], object]] = {
    "demux": spdl.io.demux_video,
    "image": spdl.io.load_image,
    "batch": lambda source: spdl.io.load_image_batch([source], width=8, height=8),
}


def _takes_servers_word() -> bool:
    """Whether FFmpeg takes a playlist that a server calls a picture for one, damaged, as from version 7.1 on."""
    done = subprocess.run(
        ["ffmpeg", "-v", "debug", "-i", "pipe:"], input=playlist("x"), capture_output=True, check=False
    )
    return b"Not detecting m3u8/hls" in done.stderr


@pytest.mark.needs(*(f"demuxer {name}" for name in ("hls", "concat", "dash", "sdp", "vobsub")), "protocol http")
@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_data_that_names_other_media_is_refused(
    kind: str, load: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From memory, a file and a URL; the message names the format and how to ask for it, and no host is asked."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(segment(), tmp_path / "segment.ts")
    (tmp_path / "x.sub").write_bytes(segment().read_bytes())
    data = HOSTILE[kind].replace(b"{url}", server.url.encode())
    (tmp_path / "x.jpg").write_bytes(data)
    name = kind.split()[0]
    told = rf'\({name}\).*demux_config\(format="{name}"\)'
    # The name of a file counts, too, and may stand against its content.
    for source, reason in ((data, told), ("x.jpg", f"{told}|Invalid"), (server.url + "x.jpg", f"{told}|Invalid")):
        if name == "hls" and load == "demux" and str(source).startswith("http") and _takes_servers_word():
            assert "mjpeg" in repr(spdl.io.demux_video(source))
            continue
        with pytest.raises(spdl.io.MediaError, match=reason) as caught:
            LOADERS[load](source)
        assert isinstance(caught.value, spdl.io.OpenError | spdl.io.BatchLoadError)
    assert set(server.asked) == {"/x.jpg"}


@pytest.mark.needs("demuxer tty")
def test_text_is_no_picture_because_of_its_name(tmp_path: Path) -> None:
    """FFmpeg would show any text as a terminal does."""
    path = tmp_path / "notes.txt"
    path.write_text("some words\n" * 50)
    with pytest.raises(spdl.io.OpenError, match="it is text"):
        spdl.io.load_image(path)


def test_a_movie_that_refers_to_another_file_does_not_open_it(tmp_path: Path) -> None:
    """Not even where the option of FFmpeg that allows it is set, without saying by what."""
    data = h264().read_bytes()
    at = data.index(b"dref")
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(100))
    # An alias (QuickTime File Format, data reference atom) in place of the entry that says "in this file".
    path = str(secret).encode()
    alias = bytes(150) + b"\0\2" + len(path).to_bytes(2, "big") + path + b"\0" * (len(path) % 2) + b"\xff\xff\0\0"
    entry = (12 + len(alias)).to_bytes(4, "big") + b"alis" + bytes(4) + alias
    grown = data[: at + 4] + data[at + 4 : at + 12] + entry + data[at + 24 :]
    more = len(entry) - 12
    changed = bytearray(grown)
    for box in (b"dref", b"dinf", b"minf", b"mdia", b"trak", b"moov"):
        size_at = changed.index(box) - 4
        changed[size_at : size_at + 4] = (int.from_bytes(changed[size_at : size_at + 4], "big") + more).to_bytes(
            4, "big"
        )
    assert len(spdl.io.demux_video(bytes(changed))) == 0  # as FFmpeg has it
    asked = spdl.io.demux_config(format_options={"enable_drefs": "1", "use_absolute_path": "1"})
    with pytest.raises(spdl.io.OpenError, match=rf"refers to '.*{secret.name}', and what a container refers to"):
        spdl.io.demux_video(bytes(changed), demux_config=asked)


# ------------------------------------------------------------------------------------------------------------- asked


@pytest.mark.needs("demuxer hls", "demuxer concat", "protocol http")
def test_naming_the_format_opens_what_a_playlist_names(server: Server, tmp_path: Path) -> None:
    """In files beside it, on its server, and from memory."""
    shutil.copy(segment(), tmp_path / "segment.ts")
    (tmp_path / "x.m3u8").write_bytes(playlist("segment.ts"))
    hls = spdl.io.demux_config("hls")
    for source in (tmp_path / "x.m3u8", server.url + "x.m3u8", playlist(server.url + "segment.ts")):
        assert len(spdl.io.demux_video(source, demux_config=hls)) == 25
    assert server.asked == ["/x.m3u8", "/segment.ts", "/segment.ts"]
    (tmp_path / "x.ffconcat").write_bytes(HOSTILE["concat"])
    assert len(spdl.io.demux_video(tmp_path / "x.ffconcat", demux_config=spdl.io.demux_config("concat"))) == 25


@pytest.mark.needs("demuxer hls", "protocol http")
def test_protocols_allow_without_a_format_and_narrow_with_one(server: Server, tmp_path: Path) -> None:
    """What is not among them is refused, and named."""
    shutil.copy(segment(), tmp_path / "segment.ts")
    data = playlist(server.url + "segment.ts")
    assert len(spdl.io.demux_video(data, demux_config=spdl.io.demux_config(protocols=("http", "tcp")))) == 25
    server.asked.clear()
    for format, protocols in (("hls", ()), ("hls", ("file",)), (None, ["https"])):
        with pytest.raises(spdl.io.OpenError):
            spdl.io.demux_video(data, demux_config=spdl.io.demux_config(format, protocols=protocols))
    (tmp_path / "x.m3u8").write_bytes(data)
    with pytest.raises(spdl.io.OpenError, match="'http' not on whitelist 'file,crypto,data'"):
        spdl.io.demux_video(tmp_path / "x.m3u8", demux_config=spdl.io.demux_config("hls"))
    assert server.asked == []


def test_arguments_are_checked() -> None:
    """By type, by value, and what FFmpeg knows when it is used."""
    with pytest.raises(spdl.io.DemuxError, match="unknown protocol 'nonsense'"):
        spdl.io.Demuxer(h264(), demux_config=spdl.io.demux_config(protocols=["nonsense"]))
    for wrong in ("http", b"http", 1, [1], {"http"}):
        with pytest.raises(TypeError, match="protocols must be"):
            spdl.io.demux_config(protocols=wrong)  # type: ignore[arg-type]
    for no_number in ("1", True, [1]):
        with pytest.raises(TypeError, match="timeout must be"):
            spdl.io.demux_config(timeout=no_number)  # type: ignore[arg-type]
    for timeout in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout must be > 0 seconds, or None for no limit"):
            spdl.io.demux_config(timeout=timeout)


# ------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["a:b.png", "http:x.png", "f%03d.png", "file:y.png", "concat:z|z", "*.png", "data:w"])
def test_a_path_means_the_file_of_that_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a protocol, a pattern or a list."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (6, 4)).save(name, "PNG")
    Image.new("RGB", (8, 8)).save("f001.png")  # what a pattern would find
    for source in (name, Path(name), tmp_path / name):
        assert spdl.io.load_image(source).shape == (4, 6, 3)
        assert len(spdl.io.demux_video(source)) == 1
        assert spdl.io.load_image_batch([source], width=6, height=4).shape == (1, 4, 6, 3)


def test_a_pattern_means_many_files_if_the_format_says_so(tmp_path: Path) -> None:
    """That is how sequences of images are asked for."""
    run_ffmpeg(*pictures(duration=0.2), tmp_path / "frame%03d.png")
    pattern = tmp_path / "frame%03d.png"
    assert len(spdl.io.demux_video(pattern, demux_config=spdl.io.demux_config("image2"))) == 5
    with pytest.raises(spdl.io.SourceNotFoundError, match="frame%03d"):
        spdl.io.demux_video(pattern)


@pytest.mark.parametrize("source", ["nonsense:x.png", Path("http:x.png"), Path("concat:x|x")])
def test_a_name_that_is_neither_file_nor_url_is_not_found(source: str | Path) -> None:
    """Path objects are never URLs."""
    for load in LOADERS.values():
        with pytest.raises(spdl.io.MediaError, match=r"No such file|there is no such file") as caught:
            load(source)
        assert isinstance(caught.value, FileNotFoundError | spdl.io.BatchLoadError)
