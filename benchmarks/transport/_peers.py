"""Who moves items, which way, and in which environment. The one place to touch when a peer is added."""

from dataclasses import dataclass

from benchmarks._contest.environments import CHECKOUT, MEDIA_LIBRARIES, REFERENCE, Environment

OURS = "spdl"


@dataclass(frozen=True, slots=True)
class Peer:
    """A row of the tables.

    Attributes:
        name: What ``--peers`` takes.
        adapter: Module in ``adapters``.
        way: One of those the adapter knows.
        environment: Where it runs.
    """

    name: str
    adapter: str
    way: str
    environment: Environment = CHECKOUT


# Neighbours take turns one after the other, so what else the machine does weighs least on their ratio.
PEERS = (
    Peer("fill", "no_transport", "fresh"),
    Peer("fill-reused", "no_transport", "reused"),
    Peer(OURS, "spdl_subprocess", "plain"),
    Peer("spdl-born", "spdl_born", "born"),
    Peer("spdl-pool", "spdl_subprocess", "pool"),
    Peer("spdl-ring", "spdl_subprocess", "ring"),
    Peer("reference", "spdl_subprocess", "plain", REFERENCE),
    Peer("reference-pool", "spdl_subprocess", "pool", REFERENCE),
    Peer("reference-ring", "spdl_subprocess", "ring", REFERENCE),
    Peer("torch", "torch_loader", "worker", MEDIA_LIBRARIES),
    Peer("queue", "plain_queue", "queue"),
)


def peer_named(name: str) -> Peer:
    """The peer of that name, which exists."""
    [peer] = [peer for peer in PEERS if peer.name == name]
    return peer
