"""Twelve jobs of which it is known what limits them: is the verdict right if it is asked for once, at the end?

    python benchmarks/verdict/jobs.py [--rounds N] [--seconds S] [--cases A,B] [--json PATH] [--require]

Each job has a process of its own, and runs twice in each round: asked once when it has ended, and measured from the
start. The share of a CPU that the sampling takes is shown too. See README.md.
"""

import argparse
import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The most that sampling may take, as a share of a CPU.
MOST = 0.001
WAYS = ("once", "from the start")


def _measure(name: str, seconds: float, way: str) -> dict[str, Any]:
    once = ["--once"] if way == "once" else []
    command = [sys.executable, "-m", "benchmarks.verdict._one", *once, name, str(seconds)]
    environment = {**os.environ, "SPDL_BENCHMARK_NUMBERS": "{}"}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120 + 4 * seconds, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def is_right(case: Any, found: dict[str, Any]) -> bool:
    """Whether the verdict names the cause, and a stage that is to blame; a region has the names of its stages."""
    blamed = found["stage"] or ""
    return found["cause"] in case.causes and (not case.blames or any(name in blamed for name in case.blames))


def main(arguments: list[str]) -> int:
    from benchmarks._contest.machine import describe_run
    from benchmarks.verdict._cases import JOBS

    parser = argparse.ArgumentParser(prog="benchmarks/verdict/jobs.py", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each runs (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=6.5, help="how long each is read (default %(default)s)")
    parser.add_argument("--cases", type=lambda text: text.split(","), help="comma-separated, * for any characters")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result there")
    parser.add_argument("--require", action="store_true", help="exit with 1 if a verdict is not right")
    options = parser.parse_args(arguments)
    cases = [case for case in JOBS if any(fnmatchcase(case.name, each) for each in options.cases or ["*"])]
    print("| round | job | asked | limited by | verdict | | CPUs of others | sampling, % of a CPU |")
    print("| ---: | --- | --- | --- | --- | --- | ---: | ---: |", flush=True)
    results, costs, num_right = [], [], 0
    for number in range(1, options.rounds + 1):
        for case in cases:
            for way in WAYS:
                found = _measure(case.name, options.seconds, way)
                right = is_right(case, found)
                num_right += right
                costs.append(found["sampling"])
                results.append({"round": number, "job": case.name, "way": way, "is_right": right, "verdict": found})
                cells = [
                    str(number),
                    case.name,
                    way,
                    " or ".join(case.causes),
                    f"{'probably ' if found['is_probable'] else ''}{found['cause']} ({found['stage'] or '-'})",
                    "right" if right else "unsure" if found["cause"] == "unsure" else "WRONG",
                    f"{found['cpus_outside']:.1f}",
                    f"{100 * found['sampling']:.3f}",
                ]
                print("| " + " | ".join(cells) + " |", flush=True)
                if not right:
                    print(f"{case.name}: {found['text']}; {found['shares']}", file=sys.stderr, flush=True)
    print(f"\n- right: {num_right} of {len(results)}")
    if costs:
        print(f"- sampling: {100 * median(costs):.3f} % of a CPU (median), {100 * max(costs):.3f} % at most")
    if options.json is not None:
        about = describe_run("benchmarks/verdict/jobs.py", arguments)
        options.json.write_text(json.dumps({"environment": about, "results": results}, indent=1) + "\n")
    has_missed = num_right < len(results) or (bool(costs) and median(costs) > MOST)
    return 1 if options.require and has_missed else 0


if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
