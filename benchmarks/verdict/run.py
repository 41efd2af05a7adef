"""Is the verdict on a pipeline right, and does its advice give what it promises?

    python benchmarks/verdict/run.py [--quick] [--cases A,B] [--seconds S] [--json PATH] [--require]

Each pipeline has a process of its own, and runs alone. See README.md.
"""

import argparse
import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from sysconfig import get_config_var
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Cases of a trial run.
QUICK = ("sleep-4", "spin-4", "sha-all", "source-sleep", "consumer-sleep", "mixed-issue")


def _measure(name: str, seconds: float, *change: object, numbers: dict[str, int] | None = None) -> dict[str, Any]:
    """One run; with the amounts of work of another, if given."""
    environment = {**os.environ, "SPDL_BENCHMARK_NUMBERS": json.dumps(numbers or {})}
    command = [sys.executable, "-m", "benchmarks.verdict._one", name, str(seconds), *map(str, change)]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120 + 4 * seconds, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _gain(case: Any, found: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """Apply the advice, and compare the rate with the predicted one."""
    arguments = found["arguments"]
    if not arguments or found["stage"] is None:
        return None
    change = [arguments.get(name, 0) for name in ("concurrency", "num_threads", "max_workers")]
    after = _measure(case.name, seconds, found["stage"], *change, numbers=found["numbers"])
    return {
        "arguments": arguments,
        "rate": after["rate"],
        "ratio": after["rate"] / found["predicted_rate"],
        "cpus_outside": after["cpus_outside"],
    }


def _judge(case: Any, found: dict[str, Any]) -> str:
    if found["cause"] == "unsure":
        return "unsure"
    is_stage = not case.blames or found["stage"] in case.blames
    return "right" if found["cause"] in case.causes and is_stage else "WRONG"


def _row(case: Any, result: dict[str, Any]) -> str:
    found, gain = result["verdict"], result.get("gain")
    cells = [
        case.name,
        " or ".join(case.causes),
        f"{found['cause']} ({found['stage'] or '-'})",
        result["judged"],
        f"{found['rate']:.0f}",
        f"{found['cpus_outside']:.1f}",
    ]
    cells += ["-", "-", "-"] if not gain else [
        f"{found['predicted_rate']:.0f}", f"{gain['rate']:.0f}", f"{gain['ratio']:.2f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _shares(results: dict[str, Any], cases: list[Any]) -> dict[str, float]:
    """What is required: shares of right labels, of those that are wrong, and of predictions within 20 %."""
    figures = {}
    for kind, is_mixture in (("pure", False), ("mixture", True)):
        judged = [
            results[case.name]["judged"] for case in cases if case.name in results and case.is_mixture is is_mixture
        ]
        if judged:
            figures[f"{kind}: right"] = judged.count("right") / len(judged)
            figures[f"{kind}: wrong"] = judged.count("WRONG") / len(judged)
    ratios = [result["gain"]["ratio"] for result in results.values() if result.get("gain")]
    if ratios:
        figures["predictions within 20 %"] = sum(0.8 <= ratio <= 1.2 for ratio in ratios) / len(ratios)
    return figures


REQUIRED = {"pure: right": 0.95, "mixture: right": 0.85, "predictions within 20 %": 1.0}


def main(arguments: list[str]) -> int:
    from benchmarks._contest.machine import describe_run
    from benchmarks.verdict._cases import CASES

    parser = argparse.ArgumentParser(prog="benchmarks/verdict/run.py", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="six pipelines; nothing is stored")
    parser.add_argument("--cases", type=lambda text: text.split(","), help="comma-separated, * for any characters")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each is measured (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result there (default: in results/)")
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    options = parser.parse_args(arguments)
    patterns = options.cases or (QUICK if options.quick else ["*"])
    cases = [case for case in CASES if any(fnmatchcase(case.name, pattern) for pattern in patterns)]

    print("| pipeline | limited by | verdict | | items/s | CPUs of others | predicted | applied | ratio |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    results: dict[str, Any] = {}
    for case in cases:
        found = _measure(case.name, options.seconds)
        if "skipped" in found:
            print(f"{case.name}: skipped: {found['skipped']}", file=sys.stderr)
            continue
        result = results[case.name] = {"verdict": found, "judged": _judge(case, found)}
        if case.has_gain and result["judged"] == "right":
            result["gain"] = _gain(case, found, options.seconds)
        print(_row(case, result), flush=True)
        if result["judged"] != "right":
            print(f"{case.name}: {found['reason']}; {found['shares']}", file=sys.stderr)
    figures = _shares(results, cases)
    print()
    has_missed = False
    for name, figure in figures.items():
        required = REQUIRED.get(name)
        has_missed = has_missed or (required is not None and figure < required)
        rest = "" if required is None else f" (required {required:.0%}){'' if figure >= required else ': MISS'}"
        print(f"- {name}: {figure:.0%}{rest}")
    path = options.json
    if path is None and not options.quick and not options.cases:
        version = f"{sys.version_info.major}.{sys.version_info.minor}{'t' * bool(get_config_var('Py_GIL_DISABLED'))}"
        path = Path(__file__).parent / "results" / f"python{version}.json"
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        about = describe_run("benchmarks/verdict/run.py", arguments)
        stored = {"environment": about, "figures": figures, "cases": results}
        path.write_text(json.dumps(stored, indent=1) + "\n")
    return 1 if options.require and has_missed else 0


if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
