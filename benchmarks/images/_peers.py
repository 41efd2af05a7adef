"""The peers and their environments. To add a peer, change only this file."""

from typing import Any

from benchmarks._contest.contest import Peer
from benchmarks._contest.environments import CHECKOUT, MEDIA_LIBRARIES, REFERENCE, Environment

__all__ = ["DRAWS", "OURS", "PEERS", "READS_FILES", "settings_of"]

OURS = "spdl"
LIBRARIES = Environment("images-peers", ("numpy", "opencv-python-headless>=4.9", "pillow>=10.3", "simplejpeg>=1.7"))
PILLOW_SIMD = Environment("images-simd", ("numpy", "pillow-simd"), variables=(("CC", "cc -mavx2"),))
DALI = Environment("images-dali", ("numpy", "nvidia-dali-cuda120>=1.50"))
TENSORFLOW = Environment("images-tf", ("numpy", "tensorflow-cpu>=2.18"))
FFCV = Environment("images-ffcv", ("numpy", "pillow", "torch==2.13.0", "ffcv==1.0.2"))


def _peer(name: str, adapter: str, environment: Environment = CHECKOUT, **settings: Any) -> Peer:
    return Peer(name, f"benchmarks.images.adapters.{adapter}", environment, settings)


# Neighbours run one directly after the other, so other load on the machine affects their ratio least.
PEERS = (
    _peer(OURS, "spdl_batch"),
    _peer("spdl-uint8", "spdl_batch", dtype="uint8"),
    _peer("spdl-1", "spdl_batch", num_threads=1),
    _peer("spdl-reuse", "spdl_batch", reuse=True),
    _peer("reference", "spdl_reference", REFERENCE),
    _peer("pillow", "pillow_resize", LIBRARIES),
    _peer("pillow-draft", "pillow_draft", LIBRARIES),
    _peer("pillow-simd", "pillow_resize", PILLOW_SIMD),
    _peer("opencv", "opencv_resize", LIBRARIES),
    _peer("simplejpeg", "simplejpeg_resize", LIBRARIES),
    _peer("torchcodec", "torch_codec", MEDIA_LIBRARIES),
    _peer("dali", "dali_pipeline", DALI),
    _peer("tf-data", "tensorflow_data", TENSORFLOW),
    _peer("ffcv", "ffcv_loader", FFCV),
    _peer("planes", "bare_planes"),
    _peer("rgb", "bare_rgb"),
    _peer("opencv-half", "opencv_half", LIBRARIES),
    _peer("spdl-restarts", "spdl_batch", restart_rows=1),
)
#: Peers that do all of SPDL's work, from the same files.
READS_FILES = (
    "reference",
    "pillow",
    "pillow-draft",
    "pillow-simd",
    "opencv",
    "simplejpeg",
    "torchcodec",
    "dali",
    "tf-data",
)
#: Peers that draw their own random crops, from the same distribution, which cannot be compared.
DRAWS = ("dali", "ffcv")


def settings_of(name: str) -> dict[str, Any]:
    """The settings of the peer with that name, which must exist."""
    [peer] = [peer for peer in PEERS if peer.name == name]
    return dict(peer.settings)
