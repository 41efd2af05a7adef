"""Decoding on NVIDIA's GPUs: what is wrong with the arguments is said first, and then what is missing."""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import DeviceError, cuda_config
from spdl.io._devices import _cuda
from tests.support.media import h264

CONFIG = cuda_config(0)
NV12 = SimpleNamespace(__cuda_array_interface__={"shape": (2, 6, 4), "typestr": "|u1", "data": (0, False)})


def packets() -> Any:
    return spdl.io.demux_video(h264())


def codec() -> Any:
    with spdl.io.Demuxer(h264()) as demuxer:
        return demuxer.video_codec


#: By name: each call with good arguments, of which some are replaced.
CALLS: dict[str, Callable[..., Any]] = {
    "decode_packets_nvdec": lambda **kw: spdl.io.decode_packets_nvdec(
        **{"packets": packets(), "device_config": CONFIG, **kw}
    ),
    "nvdec_decoder": lambda **kw: spdl.io.nvdec_decoder(**{"cuda_config": CONFIG, "codec": codec(), **kw}),
    "streaming_load_video_nvdec": lambda **kw: spdl.io.streaming_load_video_nvdec(
        **{"src": "a.mp4", "device_config": CONFIG, "num_frames": 8, **kw}
    ),
    "nv12_to_rgb": lambda **kw: spdl.io.nv12_to_rgb(**{"buffers": NV12, "device_config": CONFIG, **kw}),
    "nv12_to_bgr": lambda **kw: spdl.io.nv12_to_bgr(**{"buffers": NV12, "device_config": CONFIG, **kw}),
    "decode_image_nvjpeg": lambda **kw: spdl.io.decode_image_nvjpeg(**{"src": b"x", "device_config": CONFIG, **kw}),
    "load_image_batch_nvjpeg": lambda **kw: spdl.io.load_image_batch_nvjpeg(
        **{"srcs": [b"x", "a.jpg"], "device_config": CONFIG, "width": 8, "height": 8, **kw}
    ),
}


class FakeTorch:
    """A torch with some CUDA, or none."""

    __version__ = "9.9"

    def __init__(self, num_devices: int, cuda: str | None) -> None:
        self.cuda = SimpleNamespace(device_count=lambda: num_devices)
        self.version = SimpleNamespace(cuda=cuda, hip=None)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """One, as far as anybody asks."""
    monkeypatch.setattr(_cuda, "get_torch", lambda: FakeTorch(1, "13.0"))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("torch", "text"),
    [
        (None, "needs CUDA through torch, which is not installed"),
        (FakeTorch(0, None), r"this torch \(9.9\) is built without CUDA"),
        (FakeTorch(0, "13.0"), "torch finds no GPU: is there a driver"),
    ],
    ids=["no torch", "no CUDA", "no GPU"],
)
def test_what_is_missing_is_said(name: str, torch: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it: nobody gets a GPU to learn that there is no decoder either. And what to do instead."""
    monkeypatch.setattr(_cuda, "get_torch", lambda: torch)
    with pytest.raises(DeviceError, match=f"^cannot .* on cuda:0: .*{text}.*; also, this .* has no .*Instead,"):
        CALLS[name]()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", CALLS)
def test_a_device_does_not_make_a_decoder(name: str) -> None:
    """It is a RuntimeError, which says so; another device is missed by its number."""
    with pytest.raises(RuntimeError, match=r"^cannot .* on cuda:0: this version of spdl has no ") as caught:
        CALLS[name]()
    assert isinstance(caught.value, DeviceError)
    config = {"cuda_config" if name == "nvdec_decoder" else "device_config": cuda_config(3)}
    with pytest.raises(DeviceError, match="on cuda:3: there is 1 device, counted from 0; also"):
        CALLS[name](**config)


WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("decode_packets_nvdec", {"packets": 3}, TypeError, "packets must be VideoPackets, got int"),
    ("decode_packets_nvdec", {"device_config": 0}, TypeError, "device_config must be made by cuda_config"),
    ("decode_packets_nvdec", {"pix_fmt": "rgba"}, ValueError, "pix_fmt must be 'rgb' or 'bgr', got 'rgba'"),
    ("decode_packets_nvdec", {"crop_left": -1}, ValueError, "crop_left must be >= 0, got -1"),
    ("decode_packets_nvdec", {"crop_top": 1.5}, TypeError, "crop_top must be an int, got 1.5"),
    ("decode_packets_nvdec", {"crop_top": 500, "crop_bottom": 500}, ValueError, "must leave at least 1 of"),
    ("decode_packets_nvdec", {"scale_width": 0}, ValueError, "scale_width must be >= 1, or -1"),
    ("nvdec_decoder", {"codec": None}, TypeError, "codec must be a VideoCodec, got NoneType"),
    ("nvdec_decoder", {"cuda_config": None}, TypeError, "must be made by cuda_config"),
    ("nvdec_decoder", {"crop_right": 10_000}, ValueError, "crop_left and crop_right must leave at least 1 of"),
    ("nvdec_decoder", {"scale_height": -2}, ValueError, "scale_height must be >= -1, got -2"),
    ("streaming_load_video_nvdec", {"src": 3}, TypeError, "a source must be"),
    ("streaming_load_video_nvdec", {"src": [b"x"]}, TypeError, "a source must be .* got list"),
    ("streaming_load_video_nvdec", {"num_frames": 0}, ValueError, "num_frames must be >= 1, got 0"),
    ("streaming_load_video_nvdec", {"post_processing_params": 3}, TypeError, "must be a dict"),
    ("streaming_load_video_nvdec", {"post_processing_params": {"width": 3}}, TypeError, "scale_height; got 'width'"),
    ("streaming_load_video_nvdec", {"post_processing_params": {"crop_left": -3}}, ValueError, "crop_left must be >= 0"),
    ("streaming_load_video_nvdec", {"post_processing_params": {"scale_width": 0}}, ValueError, "scale_width must be"),
    ("nv12_to_rgb", {"buffers": b"x"}, TypeError, "buffers must be a CUDABuffer, got bytes"),
    ("nv12_to_rgb", {"coeff": 3}, ValueError, "coeff must be one of"),
    ("nv12_to_bgr", {"device_config": None}, TypeError, "device_config must be made by"),
    ("decode_image_nvjpeg", {"device_config": None}, ValueError, "device_config must be given"),
    ("decode_image_nvjpeg", {"src": 3}, TypeError, "a source must be"),
    ("decode_image_nvjpeg", {"src": []}, ValueError, "at least one image"),
    ("decode_image_nvjpeg", {"src": [b"x"]}, ValueError, "must be given for a batch"),
    ("decode_image_nvjpeg", {"src": [3]}, TypeError, "a source must be"),
    ("decode_image_nvjpeg", {"src": [b"x"], "scale_width": 1.5}, TypeError, "scale_width must be an int, got 1.5"),
    (
        "decode_image_nvjpeg",
        {"src": [b"x"], "scale_width": 8, "scale_height": 0},
        ValueError,
        "scale_height must be >=",
    ),
    ("decode_image_nvjpeg", {"pix_fmt": "gray"}, ValueError, "pix_fmt must be"),
    ("load_image_batch_nvjpeg", {"srcs": b"x"}, TypeError, "srcs must be a sequence of sources, got one bytes"),
    ("load_image_batch_nvjpeg", {"srcs": [3]}, TypeError, "a source must be"),
    ("load_image_batch_nvjpeg", {"srcs": []}, ValueError, "at least one image"),
    ("load_image_batch_nvjpeg", {"width": 0}, ValueError, "width must be >= 1, got 0"),
    ("load_image_batch_nvjpeg", {"height": True}, TypeError, "height must be an int"),
]


@pytest.mark.parametrize(("name", "arguments", "error", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_arguments_are_said_first(
    name: str, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    """With or without a device, and by the call itself."""
    with pytest.raises(error, match=text) as caught:
        CALLS[name](**arguments)
    assert not isinstance(caught.value, DeviceError)


def test_arrays_are_sources() -> None:
    """NumPy's have no truth value."""
    with pytest.raises(DeviceError, match=r"^cannot decode JPEG"):
        CALLS["decode_image_nvjpeg"](src=np.zeros(8, np.uint8))


def test_what_was_attempted_is_said() -> None:
    """To make a decoder is not to decode."""
    with pytest.raises(DeviceError, match=r"^cannot make a video decoder on cuda:0"):
        CALLS["nvdec_decoder"]()


@pytest.mark.parametrize("shape", [(6, 4), (2, 5, 4), (2, 6, 3)])
def test_frames_that_are_not_nv12_are_refused(shape: tuple[int, ...]) -> None:
    """By their shape or type."""
    for typestr in ("|u1", "<f4"):
        buffers = SimpleNamespace(__cuda_array_interface__={"shape": shape, "typestr": typestr})
        with pytest.raises(ValueError, match="buffers must be uint8"):
            CALLS["nv12_to_rgb"](buffers=buffers)


def test_packets_without_a_codec_are_refused() -> None:
    """Those of a streaming demuxer have none."""
    demuxer = spdl.io.Demuxer(h264())
    streamed = next(iter(demuxer.streaming_demux(demuxer.video_stream_index, num_packets=2)))
    demuxer.close()
    assert isinstance(streamed, spdl.io.VideoPackets)
    assert streamed.codec is None
    with pytest.raises(ValueError, match="cannot decode packets without a codec"):
        CALLS["decode_packets_nvdec"](packets=streamed)


def test_packets_can_be_used_after_a_refusal() -> None:
    """Nothing was done with them."""
    kept = packets()
    num_packets = len(kept)
    with pytest.raises(DeviceError):
        CALLS["decode_packets_nvdec"](packets=kept)
    assert len(kept) == num_packets


def test_signatures_are_those_of_the_contract() -> None:
    """Of calls with options by keyword only."""
    for name in ("nv12_to_rgb", "nv12_to_bgr"):
        assert str(inspect.signature(getattr(spdl.io, name))).startswith("(buffers: ")
    parameters = inspect.signature(spdl.io.streaming_load_video_nvdec).parameters
    assert list(parameters) == ["src", "device_config", "num_frames", "post_processing_params", "use_cache"]
    assert parameters["num_frames"].kind is inspect.Parameter.KEYWORD_ONLY
