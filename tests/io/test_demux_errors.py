"""What cannot be opened, demuxers used wrongly, and data that is damaged."""

import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import spdl.io
from tests.support.media import clip, h264, pictures, run_ffmpeg, tones


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    """With what one needs to find out why."""
    path = tmp_path / "none.mp4"
    with pytest.raises(FileNotFoundError, match=f"Failed to open the input: {path}: No such file") as caught:
        spdl.io.Demuxer(path)
    error = caught.value
    assert isinstance(error, spdl.io.SourceNotFoundError)
    assert isinstance(error, RuntimeError)
    assert (error.source, error.filename, error.action) == (str(path), str(path), "open")


@pytest.mark.parametrize("data", [b"", b"abc", bytes(5000)], ids=["empty", "short", "zeros"])
def test_what_is_not_media_is_an_open_error(data: bytes, tmp_path: Path) -> None:
    """From memory and from a file."""
    path = tmp_path / "junk"
    path.write_bytes(data)
    with pytest.raises(spdl.io.OpenError, match="Failed to open the input: Bytes: 0x"):
        spdl.io.Demuxer(data)
    with pytest.raises(spdl.io.OpenError, match=f"Failed to open the input: {path}"):
        spdl.io.Demuxer(path)
    with pytest.raises(spdl.io.OpenError, match="Failed to open the input: item 7"):
        spdl.io.Demuxer(data, name="item 7")


@pytest.mark.parametrize("format", [None, "rawvideo"])
def test_a_source_without_bytes_is_called_empty(format: str | None, tmp_path: Path) -> None:
    """In memory, as a file, and whatever the format is to be."""
    path = tmp_path / "empty.mp4"
    path.touch()
    for source in (b"", path):
        with pytest.raises(spdl.io.OpenError, match="it is empty"):
            spdl.io.Demuxer(
                source, demux_config=spdl.io.demux_config(format, {"video_size": "4x4"} if format else None)
            )
        with pytest.raises(spdl.io.OpenError, match="it is empty"):
            spdl.io.load_image(source)


def test_damage_that_asks_for_much_memory_is_an_error_of_its_source() -> None:
    """A MemoryError would not tell in which of the files. FFmpeg 7 sees that there are not as many bytes."""
    data = bytearray(clip("short.wav", *tones(8000, 0.01)).read_bytes())
    data[18] = 0xB7  # a size of the format chunk of 12 million bytes
    with pytest.raises(spdl.io.OpenError, match=r"item: (it takes more memory than there is|Invalid data)") as caught:
        spdl.io.demux_audio(bytes(data), name="item")
    assert caught.value.source == "item"


def test_a_folder_cannot_be_opened(tmp_path: Path) -> None:
    """Nor is it missing."""
    with pytest.raises(spdl.io.OpenError):
        spdl.io.Demuxer(tmp_path)


def test_unknown_formats_and_options_are_named() -> None:
    """When they are used."""
    with pytest.raises(spdl.io.DemuxError, match="unknown format 'nonsense'"):
        spdl.io.Demuxer(h264(), demux_config=spdl.io.demux_config("nonsense"))
    with pytest.raises(spdl.io.DemuxError, match="unknown option 'nonsense'"):
        spdl.io.Demuxer(h264(), demux_config=spdl.io.demux_config(format_options={"nonsense": "1"}))


@pytest.mark.parametrize("source", [None, 1, ["a"], object()])
def test_other_sources_are_type_errors(source: Any) -> None:
    """They name what is accepted."""
    with pytest.raises(TypeError, match="a source must be str"):
        spdl.io.Demuxer(source)


def test_arguments_are_checked() -> None:
    """By type, and by value."""
    for wrong in (
        lambda: spdl.io.Demuxer(h264(), demux_config="mp4"),  # type: ignore[arg-type]
        lambda: spdl.io.Demuxer(h264(), name=1),  # type: ignore[arg-type]
        lambda: spdl.io.demux_config(1),  # type: ignore[arg-type]
        lambda: spdl.io.demux_config(format_options=["a"]),  # type: ignore[arg-type]
        lambda: spdl.io.demux_config(format_options={"a": None}),  # type: ignore[dict-item]
        lambda: spdl.io.demux_config(buffer_size=1.5),  # type: ignore[arg-type]
        lambda: spdl.io.demux_config(tolerate_errors=1),  # type: ignore[arg-type]
        lambda: spdl.io.Demuxer(memoryview(b"abcd").cast("B", (2, 2))),
        lambda: spdl.io.demux_video(h264(), timestamp=0),  # type: ignore[arg-type]
        lambda: spdl.io.demux_video(h264(), timestamp="01"),  # type: ignore[arg-type]
        lambda: spdl.io.demux_video(h264(), timestamp=(None, 1)),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="buffer_size must be >= 1"):
        spdl.io.demux_config(buffer_size=0)


@pytest.mark.parametrize("bound", [float("nan"), Decimal("nan"), "x"])
def test_a_bound_that_is_no_number_is_a_value_error(bound: Any) -> None:
    """Wherever it stands."""
    with spdl.io.Demuxer(h264()) as demuxer:
        with pytest.raises(ValueError):
            demuxer.demux_video((bound, 1))
        with pytest.raises(ValueError):
            demuxer.demux_audio((0, bound))


TAKE_WINDOWS: dict[str, tuple[Any, str]] = {
    "demux_video": (lambda window: spdl.io.demux_video(h264(), timestamp=window), "timestamp"),
    "demux_audio": (lambda window: spdl.io.demux_audio(h264(), timestamp=window), "timestamp"),
    "load_video": (lambda window: spdl.io.load_video(h264(), window), "timestamp"),
    "load_audio": (lambda window: spdl.io.load_audio(h264(), window), "timestamp"),
    "get_video_filter_desc": (lambda window: spdl.io.get_video_filter_desc(timestamp=window), "timestamp"),
    "get_audio_filter_desc": (lambda window: spdl.io.get_audio_filter_desc(timestamp=window), "timestamp"),
    "Demuxer.demux_video": (lambda window: spdl.io.Demuxer(h264()).demux_video(window), "window"),
    "Demuxer.demux_audio": (lambda window: spdl.io.Demuxer(h264()).demux_audio(window), "window"),
}


@pytest.mark.parametrize("name", TAKE_WINDOWS)
def test_what_is_no_window_is_a_typed_error_that_names_the_argument(name: str) -> None:
    """And says what is accepted, and what was given."""
    take, argument = TAKE_WINDOWS[name]
    for window, kind in (
        (5, TypeError),
        ("01", TypeError),
        ({0, 1}, TypeError),
        ((0, None), TypeError),
        ((0, 1j), TypeError),
        ((0, 1, 2), ValueError),
        ((0,), ValueError),
        (("1/0", 1), ValueError),
        ((0, "one"), ValueError),
        ((0, float("nan")), ValueError),
    ):
        with pytest.raises(kind, match=argument) as caught:
            take(window)
        assert type(caught.value) is kind
        assert "seconds" in str(caught.value)
        assert "got" in str(caught.value)


@pytest.mark.parametrize("bound", [float("inf"), float("-inf"), Decimal("inf"), Fraction(10**400), 10**400])
def test_an_infinite_bound_is_an_overflow_error(bound: Any) -> None:
    """So is one beyond all floats."""
    with pytest.raises(OverflowError):
        spdl.io.demux_video(h264(), timestamp=(0, bound))


# ---------------------------------------------------------------------------------------------------------- closed


def test_use_after_close_is_an_error() -> None:
    """Of every kind, after the block and after ``close``, which may be called twice."""
    with spdl.io.Demuxer(h264(), name="v") as demuxer:
        chunks = demuxer.streaming_demux(0, num_packets=5)
        next(chunks)
    demuxer.close()
    for use in (
        demuxer.demux_video,
        demuxer.demux_audio,
        demuxer.demux_image,
        demuxer.has_audio,
        lambda: demuxer.video_codec,
        lambda: demuxer.video_stream_index,
        lambda: demuxer.streaming_demux(0, num_packets=1),
        lambda: next(chunks),
        lambda: next(chunks),
    ):
        with pytest.raises(spdl.io.ClosedError, match="closed"):
            use()


def test_two_threads_at_once_get_packets_or_an_error() -> None:
    """Whoever comes at the wrong moment is told; the other one is not disturbed."""
    gate = threading.Barrier(4)
    outcomes: list[int | str] = []

    def work() -> None:
        gate.wait()
        for _ in range(10):
            try:
                outcomes.append(len(demuxer.demux_video((0.5, 1.5))))
            except spdl.io.MediaError as exc:
                outcomes.append(str(exc))

    with spdl.io.Demuxer(h264()) as demuxer:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 40
    assert all(each == 25 or "another thread" in str(each) for each in outcomes)
    assert 25 in outcomes


def test_closing_from_several_threads_closes_once() -> None:
    """Those that come later have nothing to do, and nothing to say but that another thread is at it."""
    gate = threading.Barrier(4)
    outcomes: list[str] = []

    def work() -> None:
        gate.wait()
        try:
            demuxer.close()
        except spdl.io.MediaError as exc:
            outcomes.append(f"{type(exc).__name__}: {exc}")

    for _ in range(20):
        demuxer = spdl.io.Demuxer(h264())
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(spdl.io.ClosedError, match="closed"):
            demuxer.demux_video()
    assert outcomes == []


# --------------------------------------------------------------------------------------------------------- damaged


def cut(name: str) -> bytes:
    """The first 7 of 10 bytes."""
    options = ("-c:v", "libx264", "-g", "12", "-pix_fmt", "yuv420p") if name.endswith(("mp4", "mkv")) else ()
    last = ("-movflags", "faststart") if name.endswith("mp4") else ()
    source = tones(16000, 1) if name.endswith("wav") else pictures(duration=1)
    data = clip(name, *source, *options, *last).read_bytes()
    return data[: len(data) * 7 // 10]


@pytest.mark.parametrize("name", ["cut.mp4", "cut.mkv", "cut.avi", "cut.wav", "cut.flv"])
def test_data_that_ends_early_is_an_error(name: str) -> None:
    """It is not taken for the end. What is known about the place is told."""
    kind = "audio" if name.endswith("wav") else "video"
    with pytest.raises(spdl.io.DemuxError, match=r"cannot read item: .*(ends early|cut off)") as caught:
        getattr(spdl.io, f"demux_{kind}")(cut(name), name="item")
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert (error.source, error.action, error.stream_index) == ("item", "read", 0)
    assert error.pts is not None
    assert 0.3 < error.pts < 1


@pytest.mark.parametrize("name", ["cut.mp4", "cut.mkv", "cut.avi", "cut.wav", "cut.flv"])
def test_tolerance_ends_at_the_damage_and_counts_it(name: str) -> None:
    """What came before can be used."""
    config = spdl.io.demux_config(tolerate_errors=True)
    kind = "audio" if name.endswith("wav") else "video"
    with spdl.io.Demuxer(cut(name), demux_config=config) as demuxer:
        packets = getattr(demuxer, f"demux_{kind}")()
        chunks = list(demuxer.streaming_demux(0, num_packets=4))
    assert packets.num_errors == 1
    assert "num_errors=1" in repr(packets)
    assert 3 < len(packets) == sum(len(chunk) for chunk in chunks)
    assert [chunk.num_errors for chunk in chunks[:-1]] == [0] * (len(chunks) - 1)
    assert chunks[-1].num_errors == 1


def test_a_window_before_the_damage_is_not_affected() -> None:
    """Nothing is read that it does not need."""
    assert len(spdl.io.demux_video(cut("cut.mp4"), timestamp=(0, 0.2))) == 5


def test_a_stream_stops_at_the_damage_with_an_error() -> None:
    """And is over after that."""
    with spdl.io.Demuxer(cut("cut.mkv")) as demuxer:
        chunks = demuxer.streaming_demux(0, num_packets=5)
        with pytest.raises(spdl.io.DemuxError):
            list(chunks)
        assert list(chunks) == []


def test_endless_formats_that_are_cut_just_end() -> None:
    """Where nothing in the data says how long it is, nobody can tell."""
    data = run_ffmpeg(*pictures(duration=1), "-c:v", "mpeg2video", "-f", "mpegts", "-")
    assert 0 < len(spdl.io.demux_video(data[: len(data) * 7 // 10])) < 25
