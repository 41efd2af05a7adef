"""The measurements, their order, and their records. ``_report.py`` compares them with requirements."""

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

#: Modules that importing the engine must not import.
FORBIDDEN_IMPORTS = ("numpy", "torch", "spdl.io")

# Its last batch of 32 is not full, and it is longer than every buffer in the cases.
_NUM_CHECKED = 1000


class OutputMismatch(RuntimeError):
    """A peer does not do the work of the case, so its time is meaningless."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The amount of measurement.

    Attributes:
        rounds: The number of turns of each peer in each case.
        seconds: The intended length of a turn, without start and end of the pipeline.
        repeats: The number of calls in a turn of ``first_item``, and of fresh processes for ``import``.
        zlib_items: The number of items of 1 MB in a turn of ``zlib``, per thread.
    """

    rounds: int = 7
    seconds: float = 0.5
    repeats: int = 10
    zlib_items: int = 24

    @classmethod
    def quick(cls) -> "Settings":
        """Settings for a trial run; its numbers are not reliable."""
        return cls(rounds=2, seconds=0.02, repeats=2, zlib_items=1)


@dataclass(slots=True)
class Cost:
    """One peer in one case, one entry per round.

    Attributes:
        n: The number of items of a turn, chosen so that a turn of the peer has the intended length.
        wall_us: Microseconds per source item, minus start and end of the pipeline.
        cpu_us: CPU microseconds per source item, over all threads and processes, minus start and end.
        start_ms: The time that was subtracted: building, moving one item and tearing down.
    """

    n: int
    wall_us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    start_ms: list[float] = field(default_factory=list)


@dataclass(slots=True)
class CaseResult:
    """All peers in one case; a peer that cannot do it is not in ``costs``."""

    case: Case
    costs: dict[str, Cost]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def check_outputs(clients: Iterable[Client], cases: Iterable[Case], can: Callable[[Client, Case], bool]) -> None:
    """Check that every peer emits each item once, in order where the case promises it, in full batches except the last.

    Raises:
        OutputMismatch: A peer does not; the message has its output and the expected output.
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
    """Cost per item of each peer in each case.

    The peers take turns within a round (A B C, A B C), so that other load on the machine affects all of them equally.
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
    """The number of items for a turn of about that length. Also warms up the peer."""
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
    """Seconds for ``n`` items minus the seconds for one item, both from building to the end of tearing down."""
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
    """Milliseconds of ``import spdl.pipeline`` in fresh processes, and which forbidden modules it imported."""
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

    Both numbers of threads get the same work, and take turns at going first. The time to start and stop without an item
    is subtracted here too.
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
