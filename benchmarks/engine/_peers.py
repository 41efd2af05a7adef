"""Who is measured: which adapter, in which interpreter. The one place to touch when a peer is added."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .adapters import Adapter
from .adapters.futures import Futures
from .adapters.spdl_pipeline import SpdlPipeline
from .adapters.torch_dataloader import TorchDataLoader
from .adapters.torchdata_nodes import TorchdataNodes

__all__ = ["OURS", "PEERS", "REFERENCE", "Peer", "peer_named"]

OURS = "spdl"
REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Peer:
    """One column of the table.

    Attributes:
        name: What ``--peers`` takes.
        adapter: Makes the adapter, inside the peer's interpreter.
        lives_in: ``"checkout"``: this interpreter with this checkout's ``src``; ``"reference"``: an environment of its
            own with the released package; ``"torch"``: this interpreter if torch is installed in it, else an
            environment of its own if ``--install-torch`` has made one.
    """

    name: str
    adapter: Callable[[], Adapter]
    lives_in: Literal["checkout", "reference", "torch"]


PEERS: tuple[Peer, ...] = (
    Peer(OURS, SpdlPipeline, "checkout"),
    Peer(REFERENCE, SpdlPipeline, "reference"),
    Peer("futures", Futures, "checkout"),
    Peer("torchdata", TorchdataNodes, "torch"),
    Peer("dataloader-0", lambda: TorchDataLoader(0), "torch"),
    Peer("dataloader-2", lambda: TorchDataLoader(2), "torch"),
)


def peer_named(name: str) -> Peer:
    """The peer of that name.

    Raises:
        ValueError: There is none; the message lists those there are.
    """
    for peer in PEERS:
        if peer.name == name:
            return peer
    raise ValueError(f"no peer is called {name!r}; there are: {', '.join(peer.name for peer in PEERS)}")
