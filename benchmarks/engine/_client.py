"""The client of this benchmark's workers."""

from benchmarks._contest import client

from ._peers import Peer

__all__ = ["Client"]


class Client(client.Client):
    """A running worker of one peer."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.name, peer.environment, "benchmarks.engine._worker", peer.name)
        self.peer = peer
