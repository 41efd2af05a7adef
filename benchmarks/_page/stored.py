"""Stored results of a benchmark, read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["BENCHMARKS", "Stored", "read"]

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
        """Cases by name. A later run of a case replaces an earlier one."""
        found: dict[str, Json] = {}
        for result in self.results:
            found |= {_name(case): case for case in result["cases"]}
        return found

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


def _name(case: Json) -> str:
    name: str = case["name"] if "name" in case else case["case"]["name"]
    return name


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
