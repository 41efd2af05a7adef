"""Measures what the model needs, with two nodes of Ray on this machine: what is made on one is taken on the other.

So the way is that of two machines, through both raylets and a connection between them, without the network.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks._contest.environments import REPOSITORY
from benchmarks._contest.photos import make_photos
from benchmarks._contest.processes import cpu_seconds_of
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors

from ._model import Costs, Network
from ._simulation import Measured
from ._work import load

__all__ = ["measure"]

_STORE: Final = 400 << 20
_NUM_PHOTOS: Final = 384
_NUM_CALLS: Final = 200
#: Batches at the start that are not timed.
_NUM_SKIPPED: Final = 8


class _Nodes:
    """A cluster of two nodes that this process is connected to."""

    def __init__(self, max_actors: int) -> None:
        import ray
        from ray.cluster_utils import Cluster  # type: ignore[import-not-found, unused-ignore]

        path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        os.environ["PYTHONPATH"] = path  # of the actors
        head = {"num_cpus": 1, "object_store_memory": _STORE, "include_dashboard": False}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.far: Any = self.cluster.add_node(
            num_cpus=max_actors, object_store_memory=_STORE, resources={"far": max_actors}
        )
        ray.init(address=self.cluster.address, logging_level=logging.ERROR, log_to_driver=False)

    def raylets(self) -> tuple[int, int]:
        """Process ids: of the actors' node, and of the pipeline's."""
        far, near = (node.all_processes["raylet"][0].process.pid for node in (self.far, self.cluster.head_node))
        return far, near

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@contextmanager
def _nodes(max_actors: int) -> Iterator[_Nodes]:
    nodes = _Nodes(max_actors)
    try:
        yield nodes
    finally:
        nodes.close()


def _load(batch: int, paths: Sequence[str]) -> tuple[Any, float, int]:
    """A batch, the CPU time of making it, and the process. The last batches of an epoch have as many pictures."""
    start = time.thread_time()
    pictures = load(list(paths[:batch]))
    return pictures, time.thread_time() - start, os.getpid()


class _Run:
    """A pipeline over some actors on the other node."""

    def __init__(self, nodes: _Nodes, paths: Sequence[str], batch: int, num_actors: int, num_batches: int) -> None:
        self.nodes = nodes
        self.num_batches = num_batches
        chunks = [[paths[(n * batch + k) % len(paths)] for k in range(batch)] for n in range(num_batches)]
        builder: Any = PipelineBuilder().add_source(chunks, continuous=True)
        builder.to(RayActors(num_actors, resources={"far": 1})).pipe(partial(_load, batch))
        self.pipeline = builder.to(MAIN_PROCESS).add_sink(2).build(num_threads=1)
        self.num_bytes = 0

    def read(self) -> dict[str, float]:
        """Read an epoch. Returns the seconds of a batch: wall, and CPU of the processes."""
        pids: set[int] = set()
        makes = []
        start, before = 0.0, {}
        for seen, (pictures, make, pid) in enumerate(self.pipeline, 1):
            pids.add(pid)
            self.num_bytes = pictures.nbytes
            if seen == _NUM_SKIPPED:
                start, before = time.perf_counter(), self._cpu(pids)
            elif seen > _NUM_SKIPPED:
                makes.append(make)
        wall, after = time.perf_counter() - start, self._cpu(pids)
        num = self.num_batches - _NUM_SKIPPED
        return {"wall": wall / num, "make": median(makes)} | {
            name: (after[name] - before[name]) / num for name in after
        }

    def _cpu(self, actors: set[int]) -> dict[str, float]:
        far, near = self.nodes.raylets()
        return {
            "actors": cpu_seconds_of(sorted(actors)),
            "sender": cpu_seconds_of([far]),
            "receiver": cpu_seconds_of([near]),
            "take": cpu_seconds_of([os.getpid()]),
        }


def _echo_latency() -> float:
    """Half of the seconds that a call of Ray takes to the other node and back."""
    import ray

    class Echo:
        def say(self) -> None:
            pass

    actor: Any = ray.remote(resources={"far": 1})(Echo).remote()
    try:
        times = []
        for _ in range(_NUM_CALLS):
            start = time.perf_counter()
            ray.get(actor.say.remote())
            times.append(time.perf_counter() - start)
        return median(times[10:]) / 2
    finally:
        ray.kill(actor)


def _loopback_bandwidth(num_bytes: int = 1 << 28) -> float:
    """Bytes per second of a connection of this machine with itself."""
    server = socket.create_server(("127.0.0.1", 0))
    block = np.zeros(1 << 20, np.uint8)

    def send() -> None:
        with socket.create_connection(server.getsockname()) as sender:
            for _ in range(num_bytes // block.nbytes):
                sender.sendall(block)

    thread = threading.Thread(target=send, name="sender")
    with server:
        thread.start()
        receiver, _ = server.accept()
        into, received = memoryview(bytearray(1 << 20)), 0
        start = time.perf_counter()
        with receiver:
            while received < num_bytes:
                received += receiver.recv_into(into)
        seconds = time.perf_counter() - start
        thread.join()
    return num_bytes / seconds


def measure(batches: Sequence[int], rounds: int, num_pictures: int) -> list[Measured]:
    """Measure each size of batch with one actor and with two, which take turns.

    Args:
        batches: Numbers of pictures of a batch.
        rounds: Turns of each.
        num_pictures: Pictures of a turn.
    """
    paths = make_photos("web", _NUM_PHOTOS)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = []
    with _nodes(2) as nodes:
        loopback = Network(_loopback_bandwidth(), _echo_latency())
        for batch in batches:
            turns: dict[int, list[dict[str, float]]] = {1: [], 2: []}
            num_bytes = 0
            for _ in range(rounds):
                for number, results in turns.items():
                    run = _Run(nodes, paths, batch, number, max(4 * _NUM_SKIPPED, num_pictures // batch))
                    with run.pipeline.auto_stop():
                        run.read()  # warms up; processes that have ended count no more
                        results.append(run.read())
                    num_bytes = run.num_bytes
            both = [turn for results in turns.values() for turn in results]
            mean = {name: median([turn[name] for turn in both]) for name in both[0]}
            costs = Costs(
                num_bytes=num_bytes,
                make=mean["make"],
                send=max(0.0, mean["actors"] - mean["make"]),
                sender=mean["sender"],
                receiver=mean["receiver"],
                take=mean["take"],
            )
            rates = {number: [1 / turn["wall"] for turn in results] for number, results in turns.items()}
            found.append(Measured(batch, costs, loopback, cores, rates))
    return found
