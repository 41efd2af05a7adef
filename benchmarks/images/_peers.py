"""Who is measured, and in which environment. The one place to touch when a peer is added.

An adapter is a module with ``versions() -> dict[str, str]`` and ``load(paths)``, which gives the batch as an array of
``(images, 224, 224, 3)``, or ``None`` where there is none to compare.
"""

from dataclasses import dataclass

from benchmarks._contest.environments import CHECKOUT, REFERENCE, Environment

OURS = "spdl"
WIDTH = HEIGHT = 224
BATCH = 32
LIBRARIES = Environment("images-peers", ("numpy", "opencv-python-headless>=4.9", "pillow>=10.3", "simplejpeg>=1.7"))


@dataclass(frozen=True, slots=True)
class Peer:
    """A row of the table.

    Attributes:
        name: What ``--peers`` takes.
        adapter: Module in ``adapters``.
        environment: Where it runs.
        num_threads: How many threads share its batches.
        required: How many times as fast ours must be at least, on one thread; for ``spdl-2``, it as ours.
    """

    name: str
    adapter: str
    environment: Environment
    num_threads: int = 1
    required: float | None = None


# Neighbours take turns one after the other, so what else the machine does weighs least on their ratio.
PEERS = (
    Peer(OURS, "spdl_batch", CHECKOUT),
    Peer("spdl-2", "spdl_batch", CHECKOUT, num_threads=2, required=1.85),
    Peer("reference", "spdl_batch", REFERENCE, required=2.5),
    Peer("pillow", "pillow_resize", LIBRARIES, required=2.2),
    Peer("pillow-draft", "pillow_draft", LIBRARIES),
    Peer("opencv", "opencv_resize", LIBRARIES),
    Peer("simplejpeg", "simplejpeg_resize", LIBRARIES),
    Peer("planes", "bare_planes", CHECKOUT, required=0.75),
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
