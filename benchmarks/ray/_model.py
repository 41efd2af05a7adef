"""A model of one rank that is fed by actors on other nodes: what bounds the rate, and a simulation of batches.

What the simulation knows: actors that make batches one after the other, at most two batches of each on their way, the
network interface of each node, the time until a message arrives, and the process of the pipeline, whose Python code
runs in one thread at a time. What it does not know: other traffic, congestion, what processes on one node do to each
other, Ray's own limits of calls and objects, and a trainer that needs time.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final

from spdl.pipeline._engine._region._stage import MAX_TRANSFERS

__all__ = ["Cluster", "Costs", "Network", "bounds", "limit", "rate", "simulate"]

#: Finished batches that an actor keeps while those before them are on their way: in its channel and its sink.
_NUM_KEPT: Final = 3
#: How far the times of batches are from their mean, at most.
_SPREAD: Final = 0.2


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one batch. CPU times are in seconds.

    Attributes:
        num_bytes: Its size.
        make: The op, in the actor.
        send: The rest of the actor's process.
        sender: The raylet of the actor's node.
        receiver: The raylet of the pipeline's node.
        take: The process of the pipeline.
    """

    num_bytes: int
    make: float
    send: float
    sender: float
    receiver: float
    take: float

    @property
    def total(self) -> float:
        """CPU time of all processes."""
        return self.make + self.send + self.sender + self.receiver + self.take


@dataclass(frozen=True, slots=True)
class Network:
    """Bytes per second of a node's interface, in each direction, and seconds until a message arrives."""

    bandwidth: float
    latency: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes with actors, and one more with the pipeline, whose trainer leaves it some cores."""

    num_nodes: int
    actors_per_node: int
    network: Network
    cores_of_pipeline: float = 4.0

    @property
    def num_actors(self) -> int:
        return self.num_nodes * self.actors_per_node


def bounds(costs: Costs, cluster: Cluster) -> dict[str, float]:
    """Return the batches per second that each thing allows."""
    network = cluster.network
    on_wire = costs.num_bytes / network.bandwidth
    until_credit = on_wire + 2 * network.latency + costs.receiver + costs.take
    return {
        "actors": cluster.num_actors / (costs.make + costs.send),
        "batches on their way": cluster.num_actors * MAX_TRANSFERS / until_credit,
        "network of the actors' nodes": cluster.num_nodes / on_wire,
        "network of the pipeline's node": 1 / on_wire,
        "process of the pipeline": 1 / costs.take if costs.take else inf,
        "cores of the pipeline's node": cluster.cores_of_pipeline / (costs.receiver + costs.take),
    }


def limit(costs: Costs, cluster: Cluster) -> str:
    """Return what bounds the rate."""
    found = bounds(costs, cluster)
    return min(found, key=lambda name: found[name])


class _Server:
    """Serves one after the other."""

    def __init__(self) -> None:
        self.free_at = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """Return when it is done with something that comes now."""
        self.free_at = max(now, self.free_at) + seconds
        return self.free_at


class _Actor:
    """One actor: what it has, and what is on its way."""

    __slots__ = ("is_busy", "node", "num_inputs", "num_kept", "num_on_way")

    def __init__(self, node: int) -> None:
        self.node = node
        self.is_busy = False
        self.num_inputs = MAX_TRANSFERS
        self.num_kept = 0
        self.num_on_way = 0


class _Simulation:
    """Events in the order of their time."""

    def __init__(self, costs: Costs, cluster: Cluster, num_batches: int, seed: int) -> None:
        self.costs, self.cluster, self.num_batches = costs, cluster, num_batches
        self.random = random.Random(seed)
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.numbers = count()
        self.actors = [_Actor(number % cluster.num_nodes) for number in range(cluster.num_actors)]
        self.uplinks = [_Server() for _ in range(cluster.num_nodes)]
        self.downlink, self.pipeline = _Server(), _Server()
        self.receivers = [_Server() for _ in range(max(1, int(cluster.cores_of_pipeline)))]
        self.arrivals: deque[float] = deque()

    def at(self, time: float, event: Callable[[float], None]) -> None:
        heappush(self.events, (time, next(self.numbers), event))

    def run(self) -> list[float]:
        """Return when each batch was taken."""
        for actor in self.actors:  # they do not begin at the same moment
            self.at(self.random.random() * self.costs.make, lambda now, actor=actor: self.go_on(actor, now))  # type: ignore[misc]
        while len(self.arrivals) < self.num_batches:
            now, _, event = heappop(self.events)
            event(now)
        return list(self.arrivals)

    def go_on(self, actor: _Actor, now: float) -> None:
        """Let an actor do what it can."""
        costs = self.costs
        while actor.num_kept and actor.num_on_way < MAX_TRANSFERS:
            actor.num_kept -= 1
            actor.num_on_way += 1
            self.send(actor, now)
        if actor.num_inputs and not actor.is_busy and actor.num_kept < _NUM_KEPT:
            actor.is_busy = True
            actor.num_inputs -= 1
            self.at(now + 2 * self.cluster.network.latency, lambda now: self.deal(actor, now))
            factor = self.random.uniform(1 - _SPREAD, 1 + _SPREAD)
            self.at(now + costs.make * factor + costs.send, lambda now: self.finish(actor, now))

    def deal(self, actor: _Actor, now: float) -> None:
        actor.num_inputs += 1
        self.go_on(actor, now)

    def finish(self, actor: _Actor, now: float) -> None:
        actor.is_busy = False
        actor.num_kept += 1
        self.go_on(actor, now)

    def send(self, actor: _Actor, now: float) -> None:
        """A batch leaves its node; the first bytes arrive while the last have not left."""
        on_wire = self.costs.num_bytes / self.cluster.network.bandwidth
        gone = self.uplinks[actor.node].serve(now, on_wire)
        there = max(self.downlink.serve(gone - on_wire, on_wire), gone) + self.cluster.network.latency
        self.at(there, lambda now: self.receive(actor, now))

    def receive(self, actor: _Actor, now: float) -> None:
        receiver = min(self.receivers, key=lambda each: each.free_at)
        taken = self.pipeline.serve(receiver.serve(now, self.costs.receiver), self.costs.take)
        self.arrivals.append(taken)
        self.at(taken + self.cluster.network.latency, lambda now: self.return_credit(actor, now))

    def return_credit(self, actor: _Actor, now: float) -> None:
        actor.num_on_way -= 1
        self.go_on(actor, now)


def simulate(costs: Costs, cluster: Cluster, *, num_batches: int = 2000, seed: int = 0) -> float:
    """Return the batches per second that the pipeline takes, without the first quarter."""
    num_batches = max(num_batches, 24 * cluster.num_actors)
    times = sorted(_Simulation(costs, cluster, num_batches, seed).run())
    start = len(times) // 4
    simulated = (len(times) - 1 - start) / (times[-1] - times[start])
    return min(simulated, bounds(costs, cluster)["cores of the pipeline's node"])


def rate(costs: Costs, cluster: Cluster, cores: float | None = None) -> float:
    """Return the batches per second by the simulation.

    Args:
        costs: Of a batch.
        cluster: Where it is made and taken.
        cores: Those of the one machine that all nodes are on, if they are.
    """
    simulated = simulate(costs, cluster)
    return simulated if cores is None else min(simulated, cores / costs.total)
