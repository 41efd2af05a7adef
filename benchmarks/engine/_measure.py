"""What is asked of the peers, in which order, and what is kept. No judgement: that is ``_report.py``."""

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks._contest.client import run_python

from ._cases import Case
from ._client import Client

__all__ = [
    "FORBIDDEN_IMPORTS",
    "CaseResult",
    "Cost",
    "OutputMismatch",
    "Settings",
    "check_outputs",
    "measure_cases",
    "measure_first_item",
    "measure_import",
    "measure_zlib",
]

#: What the engine must not bring along.
FORBIDDEN_IMPORTS = ("numpy", "torch", "spdl.io")

# Leaves a batch of 32 that is not full, and is longer than every buffer in the cases.
_NUM_CHECKED = 1000


class OutputMismatch(RuntimeError):
    """A peer does not do the work of the case, so its time would mean nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        rounds: Turns of every peer at every case.
        seconds: What one turn should last, start and end of the pipeline not counted.
        repeats: Calls of a turn of ``first_item``; fresh processes for ``import``.
        zlib_items: Items of 1 MB in a turn of ``zlib``, for each thread.
    """

    rounds: int = 7
    seconds: float = 0.5
    repeats: int = 10
    zlib_items: int = 24

    @classmethod
    def quick(cls) -> "Settings":
        """Enough to see that everything works; the numbers are not to be shown to anyone."""
        return cls(rounds=2, seconds=0.02, repeats=2, zlib_items=1)


@dataclass(slots=True)
class Cost:
    """One peer at one case, an entry for each round.

    Attributes:
        n: Items of one turn; chosen for the peer so that a turn lasts as long as the settings say.
        wall_us: Microseconds for each source item, start and end of the pipeline taken off.
        cpu_us: CPU microseconds for each source item, over all threads and processes, in the same way.
        start_ms: What was taken off: building, moving one item and tearing down.
    """

    n: int
    wall_us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    start_ms: list[float] = field(default_factory=list)


@dataclass(slots=True)
class CaseResult:
    """All peers at one case; a peer that has no way to do it is not in ``costs``."""

    case: Case
    costs: dict[str, Cost]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def check_outputs(clients: Iterable[Client], cases: Iterable[Case], can: Callable[[Client, Case], bool]) -> None:
    """See that every peer emits each item once, in order where the case promises it, in full batches but the last.

    Raises:
        OutputMismatch: One does not; the message has what it emitted and what was expected.
    """
    checksum = hashlib.sha256(repr(list(range(_NUM_CHECKED))).encode()).hexdigest()[:16]
    for case in cases:
        expected: dict[str, Any] = {"count": _NUM_CHECKED, "checksum": checksum, "batch_sizes": []}
        if case.batch_size is not None:
            full, rest = divmod(_NUM_CHECKED, case.batch_size)
            expected["batch_sizes"] = [case.batch_size] * full + [rest] * (rest > 0)
        if case.promises_order:
            expected["in_order"] = True
        for client in clients:
            if not can(client, case):
                continue
            got = client.ask("digest", case=case.name, n=_NUM_CHECKED)
            if any(got[key] != value for key, value in expected.items()):
                raise OutputMismatch(f"{client.peer.name} at {case.name!r} emitted {got}, expected {expected}")


def measure_cases(
    clients: list[Client], cases: list[Case], can: Callable[[Client, Case], bool], settings: Settings
) -> list[CaseResult]:
    """Cost per item of every peer at every case.

    The peers take turns within a round (A B C, A B C), so that what else the machine does meets all of them alike.
    """
    results = []
    for case in cases:
        able = [client for client in clients if can(client, case)]
        costs = {client.peer.name: Cost(_calibrate(client, case, settings.seconds)) for client in able}
        for number in range(settings.rounds):
            for client in able:
                _take_turn(client, case, costs[client.peer.name])
            _tell(f"{case.name}: round {number + 1} of {settings.rounds}")
        results.append(CaseResult(case, costs))
    return results


def _calibrate(client: Client, case: Case, seconds: float) -> int:
    """Items with which a turn lasts about that long. Warms the peer up, too."""
    n = 256
    while True:
        elapsed = _net(client, case, n)["wall"]
        if elapsed >= seconds / 4 or n >= 1 << 24:
            break
        # Short runs mislead (they end before the buffers have filled), so approach in steps.
        n *= 4
    wanted = int(n * seconds / max(elapsed, 1e-9))
    return max(256, wanted // 32 * 32)


def _take_turn(client: Client, case: Case, cost: Cost) -> None:
    net = _net(client, case, cost.n)
    cost.wall_us.append(net["wall"] / (cost.n - 1) * 1e6)
    cost.cpu_us.append(net["cpu"] / (cost.n - 1) * 1e6)
    cost.start_ms.append(net["start"] * 1e3)


def _net(client: Client, case: Case, n: int) -> dict[str, float]:
    """Seconds that ``n`` items take beyond what one item takes, both from building to the end of tearing down."""
    one = _timed_run(client, case, 1)
    many = _timed_run(client, case, n)
    return {"wall": many["wall"] - one["wall"], "cpu": many["cpu"] - one["cpu"], "start": one["wall"]}


def _timed_run(client: Client, case: Case, n: int) -> dict[str, Any]:
    answer: dict[str, Any] = client.ask("time", case=case.name, n=n)
    if answer["result"] != [n, n * (n - 1) // 2]:
        raise OutputMismatch(
            f"{client.peer.name} at {case.name!r}: count and sum of {n} items are {answer['result']} in a timed run"
        )
    return answer


def measure_first_item(clients: list[Client], settings: Settings) -> dict[str, list[float]]:
    """Milliseconds to build a small pipeline, take its first item and stop it; clients take turns."""
    times: dict[str, list[float]] = {client.peer.name: [] for client in clients}
    for client in clients:
        client.ask("first_item", repeat=1)  # imports, and the first thread of the process
    for number in range(settings.rounds):
        for client in clients:
            answer = client.ask("first_item", repeat=settings.repeats)
            times[client.peer.name] += [wall * 1e3 for wall in answer]
        _tell(f"first_item: round {number + 1} of {settings.rounds}")
    return times


_IMPORT = f"""
import json, sys, time
start = time.perf_counter()
import spdl.pipeline
wall = time.perf_counter() - start
print(json.dumps({{"wall": wall, "brought": [name for name in {FORBIDDEN_IMPORTS} if name in sys.modules]}}))
"""


def measure_import(clients: list[Client], settings: Settings) -> tuple[dict[str, list[float]], dict[str, list[str]]]:
    """Milliseconds of ``import spdl.pipeline`` in fresh processes, and which forbidden modules came with it."""
    times: dict[str, list[float]] = {client.peer.name: [] for client in clients}
    brought: dict[str, list[str]] = {}
    for client in clients:
        run_python(client.name, client.peer.environment, _IMPORT)  # writes the byte code, which an installation has
    for number in range(settings.repeats):
        for client in clients:
            answer = run_python(client.name, client.peer.environment, _IMPORT)
            times[client.peer.name].append(answer["wall"] * 1e3)
            brought[client.peer.name] = answer["brought"]
        _tell(f"import: process {number + 1} of {settings.repeats}")
    return times, brought


def measure_zlib(clients: list[Client], settings: Settings) -> dict[str, dict[str, list[float]]]:
    """Megabytes per second of ``zlib.compress`` on items of 1 MB, with one thread and with two.

    Both numbers of threads get the same work, and take turns at going first. What starting and stopping take without an
    item is taken off here too.
    """
    num_items = 2 * settings.zlib_items
    rates: dict[str, dict[str, list[float]]] = {client.peer.name: {"1": [], "2": []} for client in clients}
    sizes = set()
    for number in range(settings.rounds):
        for client in clients:
            for num_threads in (1, 2) if number % 2 == 0 else (2, 1):
                empty = client.ask("compress", num_threads=num_threads, num_items=0)
                answer = client.ask("compress", num_threads=num_threads, num_items=num_items)
                sizes.add(answer["result"])
                rates[client.peer.name][str(num_threads)].append(num_items / (answer["wall"] - empty["wall"]))
        if len(sizes) != 1:
            raise OutputMismatch(f"zlib: compressed sizes differ between peers or threads: {sorted(sizes)}")
        _tell(f"zlib: round {number + 1} of {settings.rounds}")
    return rates


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
