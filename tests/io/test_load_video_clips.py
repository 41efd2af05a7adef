"""``load_video_clips``: clips of many videos in one array, compared with decoding everything and selecting."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from spdl.io import ImageTransform, RandomResizedCrop
from tests.support.child import run_child
from tests.support.media import clip, decoded_video, ffmpeg_command, output_about, pictures, tones, turned

_GRAY = ImageTransform((48, 64), color="gray", orient=False)
# Typed loosely, as excerpts may be None and sources of several types.
_load: Any = spdl.io.load_video_clips

_ENCODERS: dict[str, tuple[str, ...]] = {
    "long.mp4": ("-c:v", "libx264", "-bf", "3"),
    "pyramid.mkv": ("-c:v", "libx264", "-g", "12", "-bf", "3", "-x264-params", "b-pyramid=normal"),
    "open.ts": ("-c:v", "libx264", "-g", "10", "-bf", "2", "-x264-params", "open-gop=1"),
    "hevc.mp4": ("-c:v", "libx265", "-g", "10", "-x265-params", "log-level=error"),
    "vp9.webm": ("-c:v", "libvpx-vp9", "-g", "10", "-cpu-used", "8"),
    "vp8.webm": ("-c:v", "libvpx", "-g", "10", "-cpu-used", "8"),
    "mpeg4.avi": ("-c:v", "mpeg4", "-bf", "2", "-g", "10"),
    "mpeg2.mpg": ("-c:v", "mpeg2video", "-bf", "2", "-g", "10"),
    "mjpeg.mov": ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p"),
}  # fmt: skip


# Each of the 50 frames is brighter than the one before, so that none is like another.
_RAMP = "-vf", "geq=lum='clip(18+4*N+X/8,16,235)':cb=128:cr=128"


def _video(name: str) -> Path:
    return clip(name, *pictures(), *_RAMP, "-pix_fmt", "yuv420p", *_ENCODERS[name])


def _film() -> Path:
    """Key frames every 12 frames, with B-frames."""
    return clip("film.mp4", *pictures(), *_RAMP, "-c:v", "libx264", "-g", "12", "-bf", "2", "-pix_fmt", "yuv420p")


def _array(batch: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(batch)


def _frames(path: Path) -> NDArray[np.int16]:
    """The luma of all frames, in their own size. (Colours depend on how chroma is interpolated.)"""
    return decoded_video(path, "gray", (48, 64, 1)).astype(np.int16)


def _is_close(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether pictures are the same but for rounding."""
    return found.shape == expected.shape and int(np.abs(found.astype(np.int16) - expected).max()) <= 2


def _index_of(frame: NDArray[Any], frames: NDArray[np.int16]) -> int:
    """Which of all frames it is."""
    return int(np.abs(frames - frame.astype(np.int16)).mean(axis=(1, 2, 3)).argmin())


@pytest.mark.parametrize("name", sorted(_ENCODERS))
@pytest.mark.parametrize(("start", "stride"), [(0.0, 1), (0.5, 3), (1.0, 7), (1.9, 1)])
def test_a_clip_has_the_frames_of_decoding_everything(name: str, start: float, stride: int) -> None:
    """From the frame displayed at the start on, every ``stride``-th; behind the end, the last of them again."""
    path = _video(name)
    frames = _frames(path)
    times = spdl.io.demux_video(path).get_timestamps()
    offset = times[0]
    batch = _load([path], num_frames=6, stride=stride, start=offset + start, transform=_GRAY, layout="NTHWC")
    # A time means the nearest tick, of two the later one; in AVI, a tick is a whole frame.
    half = 0.02 if name == "mpeg4.avi" else 0
    first = sum(time <= offset + start + half for time in times[: len(frames)]) - 1
    indices = [index for index in range(first, first + 6 * stride, stride) if index < len(frames)]
    assert batch.shape == (1, 6, 48, 64, 1)
    assert batch.excerpts[0].start == pytest.approx(times[first])
    assert batch.excerpts[0].length == len(indices)
    indices += indices[-1:] * (6 - len(indices))
    found = _array(batch)[0]
    assert [_index_of(frame, frames) for frame in found] == indices
    assert _is_close(found, frames[indices])


def test_the_middle_is_the_middle() -> None:
    """As many frames are left out before the clip as behind it."""
    frames = _frames(_film())
    batch = _load([_film()], num_frames=8, stride=4, start="middle", transform=_GRAY, layout="NTHWC")
    first = (50 - (7 * 4 + 1)) // 2
    assert [_index_of(frame, frames) for frame in _array(batch)[0]] == list(range(first, first + 29, 4))


def test_random_clips_are_anywhere_and_follow_their_seeds() -> None:
    """All starts at which the clip fits occur; threads and neighbours change nothing."""
    path = _film()
    arguments: dict[str, Any] = {"num_frames": 2, "stride": 3, "transform": _GRAY}
    batch = _load([path] * 100, **arguments, seeds=range(100), num_threads=2)
    firsts = [round(excerpt.start * 25) for excerpt in batch.excerpts]
    assert min(firsts) >= 0
    assert max(firsts) <= 50 - 4
    # 100 uniform draws of 47 miss a tenth of them, and each quarter with a chance of 1e-12.
    assert len(set(firsts)) > 30
    assert {4 * first // 47 for first in firsts} == {0, 1, 2, 3}
    alone = _load([path], **arguments, seeds=[17])
    assert np.array_equal(_array(alone)[0], _array(batch)[17])
    same = _load([path] * 3, **arguments, seed=9)
    seeds = spdl.io.sample_seeds(9, 0, range(3))
    assert np.array_equal(_array(same), _array(_load([path] * 3, **arguments, seeds=seeds, num_threads=3)))


def test_a_video_that_is_too_short_repeats_its_last_frame() -> None:
    """Random and middle clips of it begin with its first frame."""
    frames = _frames(_film())
    for start in ("random", "middle"):
        batch = _load([_film()], num_frames=8, stride=10, start=start, seed=0, transform=_GRAY, layout="NTHWC")
        assert batch.excerpts == (spdl.io.Excerpt(0.0, 5),)
        assert [_index_of(frame, frames) for frame in _array(batch)[0]] == [0, 10, 20, 30, 40, 40, 40, 40]


def test_an_image_is_a_clip_of_one_frame() -> None:
    """It is repeated."""
    path = clip("one.png", *pictures(duration=0.04))
    batch = _load([path], num_frames=3, stride=2, start="middle", transform=_GRAY, layout="NTHWC")
    assert _is_close(_array(batch)[0], np.repeat(_frames(path), 3, axis=0))
    assert batch.excerpts[0].length == 1


def test_layouts_are_the_same_frames_in_another_order() -> None:
    """All three have the same elements."""
    arguments: dict[str, Any] = {"num_frames": 3, "start": 0.4, "size": (20, 30)}
    nthwc = _array(_load([_film()] * 2, **arguments, layout="NTHWC"))
    assert nthwc.shape == (2, 3, 20, 30, 3)
    assert np.array_equal(_array(_load([_film()] * 2, **arguments, layout="NTCHW")), nthwc.transpose(0, 1, 4, 2, 3))
    assert np.array_equal(_array(_load([_film()] * 2, **arguments)), nthwc.transpose(0, 4, 1, 2, 3))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["NTHWC", "NTCHW", "NCTHW"])
def test_floats_are_normalised(dtype: str, layout: str) -> None:
    """By ``mean`` and ``std``, in each layout."""
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    arguments: dict[str, Any] = {"num_frames": 2, "start": 0.4, "size": 24, "layout": layout}
    levels = _array(_load([_film()], **arguments)).astype(np.float32)
    axis = layout.index("C")
    shape = [1] * 5
    shape[axis] = 3
    expected = (levels / 255 - np.reshape(mean, shape)) / np.reshape(std, shape)
    batch = _load([_film()], **arguments, dtype=dtype, mean=mean, std=std)
    assert batch.dtype == dtype
    assert np.abs(_array(batch) - expected).max() < 5e-3


def test_all_frames_of_a_clip_get_the_same_crop() -> None:
    """``applied`` has it, and it is the one of ``plan`` for the seed."""
    transform = ImageTransform((24, 24), crop=RandomResizedCrop(), flip=0.5, color="gray")
    batch = _load([_film()] * 6, num_frames=4, stride=5, start=0.0, transform=transform, seeds=range(6), layout="NTHWC")
    assert list(batch.applied) == [transform.plan(48, 64, seed) for seed in range(6)]
    assert len({applied.crop for applied in batch.applied}) == 6
    whole = _frames(_film())[0:20:5]
    for item, applied in zip(_array(batch), batch.applied, strict=True):
        top, left, height, width = applied.crop
        rows = (np.arange(24) + 0.5) * height / 24 + top
        columns = (np.arange(24) + 0.5) * width / 24 + left
        near = whole[:, rows.astype(int)][:, :, columns.astype(int)]
        near = near[:, :, ::-1] if applied.flip else near
        # Compared with the other frames of the clip, cropped in the same way, each is nearest to its own.
        distance = np.abs(item[:, None].astype(np.int16) - near[None]).mean(axis=(2, 3, 4))
        assert (distance.argmin(axis=1) == np.arange(4)).all()


@pytest.mark.parametrize("tag", [90, 180, 270])
def test_rotation_is_applied_unless_that_is_turned_off(tag: int) -> None:
    """Frames are upright, as the ffmpeg tool shows them; with ``orient=False`` they are as stored."""
    path = clip("turned.mp4", *turned(_film(), tag))
    height, width = (48, 64) if tag == 180 else (64, 48)
    command = ffmpeg_command("-i", path, "-f", "rawvideo", "-pix_fmt", "gray", "-")
    shown = np.frombuffer(output_about(path, command), np.uint8)
    transform = ImageTransform((height, width), color="gray")
    batch = _load([path], num_frames=2, stride=20, start=0.0, transform=transform, layout="NTHWC")
    assert _is_close(_array(batch)[0], shown.reshape(-1, height, width, 1)[[0, 20]].astype(np.int16))
    stored = _load([path], num_frames=2, stride=20, start=0.0, transform=_GRAY, layout="NTHWC")
    assert _is_close(_array(stored)[0], _frames(_film())[[0, 20]])


@pytest.mark.parametrize("space", ["bt709", "smpte170m", "bt2020nc"])
@pytest.mark.parametrize("color_range", ["tv", "pc"])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv444p", "yuv420p10le"])
def test_colours_are_those_of_the_matrix_and_the_range(space: str, color_range: str, pix_fmt: str) -> None:
    """Smooth pictures are what the ffmpeg tool makes of them with accurate rounding, within two levels."""
    path = clip(f"{space}.mkv", *pictures(source="gradients", duration=0.2), "-vf",
                f"scale=out_color_matrix={space.removesuffix('nc')}:out_range={color_range}", "-c:v", "libx264",
                "-qp", "0", "-pix_fmt", pix_fmt, "-colorspace", space, "-color_range", color_range)  # fmt: skip
    command = (
        f"scale=in_color_matrix={space.removesuffix('nc')}:in_range={color_range}:flags=accurate_rnd+full_chroma_int"
    )
    expected = decoded_video(path, "rgb24", (48, 64, 3), "-vf", command).astype(np.int16)
    found = _array(_load([path], num_frames=5, start=0.0, size=(48, 64), layout="NTHWC"))[0]
    assert np.abs(found - expected).mean() < 1.0


def test_failures_are_left_out_zeroed_or_raised(tmp_path: Path) -> None:
    """As with images: by default all raise, else sources that fail are missing or zero, and their errors are kept."""
    sources = [_film(), tmp_path / "missing.mp4", _film().read_bytes(), b"no video"]
    arguments: dict[str, Any] = {"num_frames": 2, "size": 16, "start": 0.5}
    with pytest.raises(spdl.io.BatchLoadError, match=r"Failed to load some clips. \(2 of 4\)"):
        _load(sources, **arguments)
    dropped = _load(sources, **arguments, strict=False, num_threads=2)
    assert dropped.shape == (2, 3, 2, 16, 16)
    assert dropped.origins == (0, 2)
    assert len(dropped.applied) == len(dropped.excerpts) == 2
    assert [type(failure.error) for failure in dropped.failures] == [spdl.io.SourceNotFoundError, spdl.io.OpenError]
    assert np.array_equal(_array(dropped)[0], _array(dropped)[1])
    zeroed = _load(sources, **arguments, strict=False, missing="zero")
    assert zeroed.origins == (0, None, 2, None)
    assert zeroed.excerpts[1] is None
    assert not _array(zeroed)[[1, 3]].any()
    with pytest.raises(spdl.io.BatchLoadError, match="no picture is displayed at 2 seconds"):
        _load([_film()], num_frames=2, size=16, start=2.0)
    with pytest.raises(spdl.io.BatchLoadError, match="No video stream"):
        _load([clip("tone.wav", "-f", "lavfi", "-i", "sine=d=0.1")], num_frames=2, size=16, start=0.0)


def test_no_frame_is_displayed_before_the_first_one() -> None:
    """A start before the video is an error with the range; a start means the nearest tick."""
    for start, shown in ((-5.0, "-5"), (-0.001, "-0.001")):
        with pytest.raises(
            spdl.io.BatchLoadError, match=f"no picture is displayed at {shown} seconds; it has pictures from 0 to 2"
        ):
            _load([_film()], num_frames=1, size=(48, 64), start=start)
    batch = _load([_film()], num_frames=1, size=(48, 64), start=-0.00001)
    assert batch.excerpts == (spdl.io.Excerpt(0.0, 1),)


def test_the_batch_is_written_into_memory_of_the_user() -> None:
    """``out`` is filled in place; one of another shape is refused; the batch can be pickled."""
    out = np.empty((1, 3, 2, 16, 16), np.float32)
    batch = _load([_film()], num_frames=2, size=16, start=0.0, dtype="float32", out=out)
    assert np.shares_memory(_array(batch), out)
    same = pickle.loads(pickle.dumps(batch))
    assert same.excerpts == batch.excerpts
    assert same.applied == batch.applied
    assert np.array_equal(_array(same), out)
    with pytest.raises(ValueError, match="out must be uint8"):
        _load([_film()], num_frames=2, size=16, start=0.0, out=out)


def test_frames_that_are_too_large_are_refused() -> None:
    """``max_pixels`` is checked before a frame is decoded."""
    with pytest.raises(spdl.io.BatchLoadError) as caught:
        _load([_film()], num_frames=2, size=16, start=0.0, max_pixels=48 * 64 - 1)
    assert isinstance(caught.value.failures[0].error, spdl.io.ImageTooLargeError)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_frames": 0}, ValueError),
        ({"num_frames": -1}, ValueError),
        ({"num_frames": 2.0}, TypeError),
        ({"num_frames": float("nan")}, TypeError),
        ({"num_frames": 2**31}, ValueError),
        ({"stride": 0}, ValueError),
        ({"stride": -(2**63)}, ValueError),
        ({"stride": 2**31}, ValueError),
        ({"start": float("nan")}, ValueError),
        ({"start": float("inf")}, ValueError),
        ({"start": "end"}, ValueError),
        ({"start": [0.0, 1.0]}, ValueError),
        ({"start": "random"}, ValueError),
        ({"start": "random", "seeds": [1, 2]}, ValueError),
        ({"size": None}, ValueError),
        ({"size": 0}, ValueError),
        ({"transform": ImageTransform(8)}, ValueError),
        ({"size": None, "transform": 8}, TypeError),
        ({"layout": "NCHW"}, ValueError),
        ({"dtype": "int8"}, ValueError),
        ({"max_pixels": 0}, ValueError),
        ({"stream": "video"}, TypeError),
        ({"num_threads": -1}, ValueError),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    """Numbers out of range and of other types raise before a source is opened."""
    with pytest.raises(error):
        _load(["missing"], **{"num_frames": 2, "size": 16, "start": 0.0, **options})


def test_hostile_sizes_end_in_an_error() -> None:
    """A batch beyond all memory is an error; a stride beyond all videos gives one frame, repeated."""
    with pytest.raises((MemoryError, spdl.io.ConvertError)):
        _load([_film()] * 8, num_frames=2**31 - 1, size=(2**15, 2**15), start=0.0)
    batch = _load([_film()], num_frames=3, stride=2**31 - 1, size=8, start=0.0)
    assert batch.excerpts[0].length == 1


def test_damage_raises_or_is_passed_over() -> None:
    """By default it is an error; on request, frames that are lost show the one before them."""
    data = bytearray(_film().read_bytes())
    packet = len(data) // 2
    data[packet : packet + 40] = bytes(40)
    arguments: dict[str, Any] = {"num_frames": 50, "transform": _GRAY, "start": 0.0, "layout": "NTHWC"}
    with pytest.raises(spdl.io.BatchLoadError, match="damaged"):
        _load([bytes(data)], **arguments)
    tolerant = spdl.io.decode_config(tolerate_errors=True)
    batch = _load([bytes(data)], **arguments, decode_config=tolerant)
    whole = _frames(_film())
    found = [_index_of(frame, whole) for frame in _array(batch)[0]]
    assert sum(index == position for position, index in enumerate(found)) > 25
    assert all(index <= position for position, index in enumerate(found))


@pytest.mark.parametrize("format", ["mpegts", "h264"])
def test_a_size_that_changes_in_a_video_changes_nothing(format: str) -> None:
    """Frames behind the change are resized to those before it, from containers with time stamps and without."""
    options = "-c:v", "libx264", "-g", "12", "-bf", "2", "-pix_fmt", "yuv420p", "-f", format
    small = clip(f"small.{format}", *pictures(), *_RAMP, *options)
    large = clip(
        f"large.{format}", *pictures(), _RAMP[0], _RAMP[1] + ",scale=128:96", *options, "-output_ts_offset", "2"
    )
    batch = _load(
        [small.read_bytes() + large.read_bytes()], num_frames=100, start="middle", transform=_GRAY, layout="NTHWC"
    )
    found = [_index_of(frame, _frames(_film())) for frame in _array(batch)[0]]
    assert found == [*range(50), *range(50)]


def test_several_threads_may_load_clips_at_once() -> None:
    """Calls share nothing: several at once give what one gives."""
    arguments: dict[str, Any] = {"num_frames": 3, "stride": 4, "transform": _GRAY}
    expected = _array(_load([_film()] * 4, **arguments, seed=3))
    with ThreadPoolExecutor(4) as pool:
        for batch in pool.map(lambda _: _load([_film()] * 4, **arguments, seed=3, num_threads=2), range(8)):
            assert np.array_equal(_array(batch), expected)


@pytest.mark.slow
def test_an_interrupt_ends_the_call() -> None:
    """Ctrl-C while clips and sounds are loaded: the calls end, the exception is raised, and the process goes on."""
    script = """
        import os, signal, threading
        import numpy as np
        import spdl.io

        video, sound = FILES
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def interrupted(load, out):
            def send():
                while not out.any():  # until something is there, and the call is under way
                    pass
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=send, daemon=True).start()
            try:
                load(out)
                while True:
                    pass
            except KeyboardInterrupt:
                return "interrupted"

        print(interrupted(
            lambda out: spdl.io.load_video_clips(
                [video] * 2000, num_frames=8, start=0.0, size=16, layout="NTHWC", num_threads=2, out=out
            ),
            np.zeros((2000, 8, 16, 16, 3), np.uint8),
        ))
        print(interrupted(
            lambda out: spdl.io.load_audio_batch(
                [sound] * 20000, num_samples=800, sample_rate=16000, start=0.1, num_threads=2, out=out
            ),
            np.zeros((20000, 1, 800), np.float32),
        ))
        print(len(spdl.io.to_numpy(spdl.io.load_video_clips([video], num_frames=2, start=0.0, size=16))))
        """
    files = str(_film()), str(clip("tone.flac", *tones(44100, 1)))
    run_child(script.replace("FILES", repr(files))).check("interrupted interrupted 1")
