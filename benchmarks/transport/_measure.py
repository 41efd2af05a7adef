"""The measurements: outputs first, then turns."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from benchmarks._contest import client as _client
from benchmarks._contest.client import PeerError
from benchmarks._contest.environments import REPOSITORY, environ_of, interpreter_of

from ._cases import Case
from ._peers import Peer
from ._work import Producer, digest, expected_total

#: The start methods whose start-up time is measured.
METHODS = ("forkserver", "spawn")


class OutputMismatch(RuntimeError):
    """The items that arrive differ from the originals, so the time is meaningless."""


class Client(_client.Client):
    """A peer's consuming process."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.name, peer.environment, "benchmarks.transport._worker", peer.name)
        self.peer = peer


@dataclass(slots=True)
class Measured:
    """The measurements of a case.

    Attributes:
        num_items: The number of items in a pass, by peer.
        passes: The seconds per item, one value per round, by peer: see ``Consumer.time``.
    """

    num_items: dict[str, int] = field(default_factory=dict)
    passes: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def measure_case(case: Case, clients: Sequence[Client], rounds: int, seconds: float) -> Measured:
    """Passes of about ``seconds`` each.

    Raises:
        OutputMismatch: The items of a peer differ from the originals, or their order does.
    """
    result = Measured()
    made = digest(case.work, Producer(case.work, case.num_checked))
    able = []
    for client in clients:
        if not client.ask("open", work=asdict(case.work), num_items=case.num_checked):
            continue
        given = client.ask("digest")
        if given != made:
            raise OutputMismatch(f"{client.name} does not do the work of {case.name}: it gave {given}, not {made}")
        wall = min(client.ask("time")["wall"] for _ in range(2))
        num_items = max(5, round(seconds / wall * case.num_checked))
        client.ask("open", work=asdict(case.work), num_items=num_items)
        result.num_items[client.name] = num_items
        able.append(client)
    for number in range(-1, rounds):  # the first one warms up and is discarded
        for client in able:
            num_items = result.num_items[client.name]
            taken = client.ask("time")
            if taken.pop("total") != expected_total(case.work, num_items):
                raise OutputMismatch(f"{client.name} lost or changed items of {case.name} while it was timed")
            if number >= 0:
                kept = {name: value / num_items for name, value in taken.items()}
                result.passes.setdefault(client.name, []).append(kept)
    for client in able:
        client.ask("close")
    print(f"{case.name}: {rounds} rounds of {len(able)} peers", file=sys.stderr, flush=True)
    return result


def measure_start(peers: Sequence[Peer], rounds: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Milliseconds to the first item, by method and peer, one value per round; each in a fresh process (``_start``).

    Raises:
        PeerError: A process exited with an error.
    """
    taken: dict[str, dict[str, list[dict[str, float]]]] = {}
    for method in METHODS:
        taken[method] = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                taken[method][peer.name].append(_start(peer, method))
        print(f"start by {method}: {rounds} rounds of {len(peers)} peers", file=sys.stderr, flush=True)
    return taken


def _start(peer: Peer, method: str) -> dict[str, float]:
    command = [interpreter_of(peer.environment), "-m", "benchmarks.transport._start", method]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environ_of(peer.environment), cwd=REPOSITORY, check=False
    )
    if done.returncode != 0:
        raise PeerError(f"{peer.name}: starting by {method} exited with {done.returncode}:\n{done.stderr[-2000:]}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer
