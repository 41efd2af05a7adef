"""The processes of the peers that take part in a run."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .client import Client, PeerError
from .contest import Case, Contest, Peer
from .environments import CHECKOUT, REPOSITORY, Environment, SetupError, is_made
from .machine import revision_of

__all__ = ["BEFORE", "Contestant", "Started", "start", "start_one"]

#: The end of the name of a twin, which uses another checkout of SPDL.
BEFORE = "-before"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A peer and its worker.

    Attributes:
        role: The name of the peer as cases know it; that of the other one, for a twin.
    """

    peer: Peer
    role: str
    client: Client

    @property
    def name(self) -> str:
        return self.peer.name

    def open(self, case: Case, data: Mapping[str, Any]) -> bool:
        """False if it does not take part in the case."""
        if case.peers is not None and self.role not in case.peers:
            return False
        able: bool = self.client.ask(
            "open",
            case=case.name,
            data=dict(data),
            settings=dict(self.peer.settings),
            num_threads=case.num_threads,
            per=case.per,
        )
        return able


@dataclass(frozen=True, slots=True)
class Started:
    """All contestants of a run.

    Attributes:
        versions: The versions of those that run, by name.
        missing: The reasons why the others cannot run.
    """

    contestants: list[Contestant]
    versions: dict[str, Any]
    missing: dict[str, str]


def start(stack: ExitStack, contest: Contest, names: Sequence[str] | None, tree: Path | None) -> Started:
    """A worker for each peer that can run here, and for each twin.

    Args:
        names: The chosen peers; ``None`` for all, except those whose environment is optional and not made.
        tree: Another checkout, which each peer that is SPDL uses in a twin.

    Raises:
        PeerError: ``ours``, the standard or a twin cannot run.
        SetupError: Their environment could not be made.
    """
    needed = {contest.ours, contest.standard or contest.ours}
    started = Started([], {}, {})
    peers = [peer for peer in contest.peers if names is None or peer.name in {*needed, *names}]
    for peer in peers if names is None else ():
        if peer.environment.is_optional and not is_made(peer.environment):
            peers = [each for each in peers if each != peer]
            _leave_out(started, peer, SetupError("its environment is made only if it is named in --peers"))
    waiting: list[Contestant] = []
    for peer in peers:
        for one in _twins(peer, tree):
            try:
                waiting.append(start_one(stack, contest, one, peer.name))
            except SetupError as exc:
                if peer.name in needed or one is not peer:
                    raise
                _leave_out(started, peer, exc)
    # They have all been started by now: importing takes seconds.
    for contestant in waiting:
        try:
            told = contestant.client.ask("describe")
        except PeerError as exc:
            if contestant.role in needed or contestant.name != contestant.role:
                raise
            _leave_out(started, contestant.peer, exc)
            continue
        versions = told["versions"]
        its_tree = contestant.peer.environment.tree
        if its_tree is not None:
            if not told["spdl"]:
                continue  # it is not SPDL, so there is nothing to compare
            source = (its_tree / "src").resolve()
            if not all(Path(folder).resolve().is_relative_to(source) for folder in told["spdl"]):
                raise PeerError(f"{contestant.name} imports spdl from {told['spdl']}, not from {its_tree / 'src'}")
            versions = versions | {"revision": revision_of(its_tree)}
        started.contestants.append(contestant)
        started.versions[contestant.name] = versions
    return started


def start_one(stack: ExitStack, contest: Contest, peer: Peer, role: str) -> Contestant:
    """Start the worker of a peer. It ends with the stack.

    Raises:
        SetupError: Its environment could not be made.
    """
    module = "benchmarks._contest.adapter_worker"
    client = stack.enter_context(Client(peer.name, peer.environment, module, contest.sessions, peer.adapter))
    return Contestant(peer, role, client)


def _twins(peer: Peer, tree: Path | None) -> list[Peer]:
    if tree is None or peer.environment != CHECKOUT:
        return [peer]
    environment = Environment("before", tree=tree.resolve())
    return [peer, replace(peer, name=peer.name + BEFORE, environment=environment)]


def _leave_out(started: Started, peer: Peer, exc: Exception) -> None:
    # Results are public: they must not contain the path of the repository.
    started.missing[peer.name] = str(exc).strip().splitlines()[-1].replace(f"{REPOSITORY}/", "")
    print(f"without {peer.name}: {exc}", file=sys.stderr)
