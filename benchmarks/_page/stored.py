"""Stored results of a benchmark, read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._contest.result import Result

__all__ = ["BENCHMARKS", "Stored", "in_todays_format", "read"]

BENCHMARKS = Path(__file__).resolve().parents[1]

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """All results in ``benchmarks/NAME/results``.

    Attributes:
        results: The contents of the files, oldest first.
    """

    results: tuple[Json, ...]

    @property
    def newest(self) -> Json:
        return self.results[-1]

    @property
    def cases(self) -> dict[str, Json]:
        """Cases by name, in the format of ``_contest.result``. A later run of a case replaces an earlier one."""
        found: dict[str, Json] = {}
        for result in self.results:
            found |= {case["name"]: case for case in map(in_todays_format, result["cases"])}
        return found

    def all_cases(self) -> Result:
        """The same, to compute tables from."""
        return Result({"cases": list(self.cases.values())})

    def source(self) -> str:
        """One line: the machine, the dates and the versions of the measurements."""
        packages: dict[str, None] = {}
        for result in self.results:
            for versions in result.get("peers", result.get("versions", {})).values():
                packages |= {f"{package} {number.partition('+')[0]}": None for package, number in versions.items()}
        at = self.newest["environment"]
        dates = sorted({result["environment"]["date"][:10] for result in self.results})
        return (
            f"*{at['python']}, {at['cpu']}, {at['cores']} cores, {at['os'].split('-')[0]}; {' and '.join(dates)};"
            f" {', '.join(packages)}.*"
        )


def in_todays_format(case: Json) -> Json:
    """A case in the format of ``_contest.result``, from that or an earlier format."""
    if "case" in case:  # engine
        return {**case["case"], "costs": case["costs"]}
    if "passes" in case:  # transport: seconds per item
        costs = {
            peer: {f"{name}_us": [1e6 * each[name] for each in passes] for name in ("wall", "consumer", "producer")}
            for peer, passes in case["passes"].items()
        }
        return {**case, "costs": costs}
    if "num_photos" in case:  # images: seconds of all photographs
        costs = {
            peer: {f"{name}_us": [1e6 * turn[name] / case["num_photos"] for turn in turns] for name in ("wall", "cpu")}
            for peer, turns in case["turns"].items()
        }
        return {**case, "costs": costs}
    if "measured" in case:  # placement: seconds of 48 batches of 32
        return {**case, "costs": {way: _placement_costs(each) for way, each in case["measured"].items()}}
    return case


def _placement_costs(measured: Json) -> Json:
    num_batches, num_samples = 48, 48 * 32
    idle, training = measured["idle"], measured["training"]
    return {
        "wall_us": [1e6 * turn["wall"] / num_samples for turn in idle],
        "cpu_us": [1e6 * turn["cpu"] / num_samples for turn in idle],
        "training_us": [1e6 * turn["wall"] / num_samples for turn in training],
        "alone_us": [1e6 * seconds / num_batches for seconds in measured["steps"]],
        "step_us": [1e6 * turn["stepping"] / num_batches for turn in training],
        "waiting_us": [1e6 * turn["without_python"] / num_batches for turn in training],
        "pss": measured["pss"],
    }


def read(name: str) -> Stored:
    """The results of a benchmark.

    Raises:
        FileNotFoundError: There are no results.
    """
    paths = sorted((BENCHMARKS / name / "results").glob("*.json"))
    if not paths:
        raise FileNotFoundError(f"benchmarks/{name}/results has no result; run benchmarks/{name}/run.py")
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return Stored(tuple(sorted(results, key=lambda result: str(result["environment"]["date"]))))
