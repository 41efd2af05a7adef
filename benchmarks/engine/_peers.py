"""The peers, with their adapters and interpreters. To add a peer, change only this file."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks._contest.environments import CHECKOUT, Environment, is_made
from benchmarks._contest.environments import REFERENCE as REFERENCE_ENVIRONMENT

from .adapters import Adapter
from .adapters.futures import Futures
from .adapters.spdl_pipeline import SpdlPipeline
from .adapters.torch_dataloader import TorchDataLoader
from .adapters.torchdata_nodes import TorchdataNodes

__all__ = ["OURS", "PEERS", "REFERENCE", "TORCH", "Peer", "is_torch_here", "peer_named"]

OURS = "spdl"
REFERENCE = "reference"
TORCH = Environment("torch", ("numpy", "torch>=2.2", "torchdata>=0.10"))


@dataclass(frozen=True, slots=True)
class Peer:
    """One column of the table.

    Attributes:
        name: The name in ``--peers``.
        adapter: A function that makes the adapter, inside the peer's interpreter.
        lives_in: The environment, if the peer can have its own.
    """

    name: str
    adapter: Callable[[], Adapter]
    lives_in: Environment

    @property
    def environment(self) -> Environment:
        """The environment in use: for torch's peers this interpreter, unless ``--install-torch`` has made theirs."""
        if self.lives_in == TORCH and (is_torch_here() or not is_made(TORCH)):
            return CHECKOUT
        return self.lives_in


def is_torch_here() -> bool:
    """Whether this interpreter has all that torch's peers need."""
    return find_spec("torch") is not None and find_spec("torchdata") is not None


PEERS: tuple[Peer, ...] = (
    Peer(OURS, SpdlPipeline, CHECKOUT),
    Peer(REFERENCE, SpdlPipeline, REFERENCE_ENVIRONMENT),
    Peer("futures", Futures, CHECKOUT),
    Peer("torchdata", TorchdataNodes, TORCH),
    Peer("dataloader-0", lambda: TorchDataLoader(0), TORCH),
    Peer("dataloader-2", lambda: TorchDataLoader(2), TORCH),
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
