"""The peers, how they move items, and their environments. To add a peer, change only this file."""

from dataclasses import dataclass

from benchmarks._contest.environments import CHECKOUT, MEDIA_LIBRARIES, REFERENCE, Environment

OURS = "spdl"


@dataclass(frozen=True, slots=True)
class Peer:
    """A row of the tables.

    Attributes:
        name: The name in ``--peers``.
        adapter: The module in ``adapters``.
        way: One of the adapter's ways to move items.
        environment: The environment in which it runs.
    """

    name: str
    adapter: str
    way: str
    environment: Environment = CHECKOUT


# Neighbours run one directly after the other, so other load on the machine affects their ratio least.
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
    """The peer of that name, which must exist."""
    [peer] = [peer for peer in PEERS if peer.name == name]
    return peer
