"""The peers and their environments. To add a peer, change only this file.

An adapter is a module with ``versions() -> dict[str, str]`` and ``prepare(work, photos)``, which returns a function
that loads all photographs and iterates over the batches, as arrays; or ``None``, if the peer cannot do the work.
``prepare`` is called once, the function in each turn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks._contest.environments import CHECKOUT, MEDIA_LIBRARIES, REFERENCE, Environment

from ._work import Work

OURS = "spdl"
LIBRARIES = Environment("images-peers", ("numpy", "opencv-python-headless>=4.9", "pillow>=10.3", "simplejpeg>=1.7"))
PILLOW_SIMD = Environment("images-simd", ("numpy", "pillow-simd"), variables=(("CC", "cc -mavx2"),))
DALI = Environment("images-dali", ("numpy", "nvidia-dali-cuda120>=1.50"))
TENSORFLOW = Environment("images-tf", ("numpy", "tensorflow-cpu>=2.18"))
FFCV = Environment("images-ffcv", ("numpy", "pillow", "torch==2.13.0", "ffcv==1.0.2"))


@dataclass(frozen=True, slots=True)
class Peer:
    """A row of the table.

    Attributes:
        name: The name in ``--peers``.
        adapter: The module in ``adapters``.
        environment: The environment in which it runs.
        changes: The settings in which it differs from the case. It is left out of cases that already have them.
        reads_files: Whether it does all of SPDL's work, from the same files.
        draws: Whether it draws its own random crops, from the same distribution, which cannot be compared.
    """

    name: str
    adapter: str
    environment: Environment = CHECKOUT
    changes: Mapping[str, Any] = field(default_factory=dict)
    reads_files: bool = True
    draws: bool = False

    def work_in(self, work: Work) -> Work | None:
        """Its work in a case; ``None`` if it is left out there."""
        changed = replace(work, **self.changes)
        return None if self.changes and changed == work else changed


# Neighbours run one directly after the other, so other load on the machine affects their ratio least.
PEERS = (
    Peer(OURS, "spdl_batch"),
    Peer("spdl-uint8", "spdl_batch", changes={"dtype": "uint8"}, reads_files=False),
    Peer("spdl-1", "spdl_batch", changes={"num_threads": 1}, reads_files=False),
    Peer("spdl-reuse", "spdl_batch", changes={"reuse": True}, reads_files=False),
    Peer("reference", "spdl_reference", REFERENCE),
    Peer("pillow", "pillow_resize", LIBRARIES),
    Peer("pillow-draft", "pillow_draft", LIBRARIES),
    Peer("pillow-simd", "pillow_resize", PILLOW_SIMD),
    Peer("opencv", "opencv_resize", LIBRARIES),
    Peer("simplejpeg", "simplejpeg_resize", LIBRARIES),
    Peer("torchcodec", "torch_codec", MEDIA_LIBRARIES),
    Peer("dali", "dali_pipeline", DALI, draws=True),
    Peer("tf-data", "tensorflow_data", TENSORFLOW),
    Peer("ffcv", "ffcv_loader", FFCV, reads_files=False, draws=True),
    Peer("planes", "bare_planes", reads_files=False),
)


def peer_named(name: str) -> Peer:
    """The peer of that name.

    Raises:
        ValueError: There is no such peer; the message lists all peers.
    """
    for peer in PEERS:
        if peer.name == name:
            return peer
    raise ValueError(f"no peer is called {name!r}; there are: {', '.join(peer.name for peer in PEERS)}")
