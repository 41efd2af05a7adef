"""How many actors can feed one rank? A model of bandwidth and latency, made of figures that are measured here.

    python benchmarks/ray/simulate.py [--quick] [--rounds N] [--batches 8,32,128] [--json PATH] [--svg PATH]
    python benchmarks/ray/simulate.py --measured PATH       # what was measured before

Measures with two nodes of Ray on this machine, one with the pipeline and one with its actors, what a batch costs each
process. The model says from these what actors on other machines give, and what bounds it. For one actor and for two, it
is compared with what was measured. Needs Ray and two idle cores. See README.md.
"""

import argparse
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks._contest.machine import describe_run
from benchmarks.ray._simulation import NETWORKS, Measured, draw, table


def costs_table(measured: list[Measured]) -> str:
    """Return what was measured, and how far the model is from it."""
    lines = [
        "| batch | MB | make | rest of the actor | sender | receiver | pipeline | 1 actor | model | 2 actors | model |",
        "| ---: |" + " ---: |" * 10,
    ]
    for each in measured:
        costs, ratios = each.costs, each.ratios()
        times = " | ".join(
            f"{1e3 * seconds:.2f}" for seconds in (costs.make, costs.send, costs.sender, costs.receiver, costs.take)
        )
        rates = []
        for number, values in sorted(each.rates.items()):
            middle = sorted(values)[len(values) // 2]
            rates.append(f"{middle:.1f} ({min(values):.1f} to {max(values):.1f}) | {ratios[number]:.2f}x")
        lines.append(f"| {each.batch} | {costs.num_bytes / 1e6:.1f} | {times} | {' | '.join(rates)} |")
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="A model of actors on other machines.")
    parser.add_argument("--quick", action="store_true", help="short passes, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", default="8,32,128", help="pictures of a batch")
    parser.add_argument("--json", type=Path, help="store what was measured")
    parser.add_argument("--svg", type=Path, help="draw the rates for batches of 32, or of the first size")
    parser.add_argument("--measured", type=Path, help="measure nothing: read what --json has stored")
    options = parser.parse_args(arguments)
    if options.measured is not None:
        stored = json.loads(options.measured.read_text(encoding="utf-8"))
    else:
        from benchmarks.ray._measure import measure

        environment = describe_run("benchmarks/ray/simulate.py", arguments)
        sizes = [int(each) for each in options.batches.split(",")]
        found = measure(sizes, 1 if options.quick else options.rounds, 512 if options.quick else 4096)
        stored = {"environment": environment, "measured": [each.document() for each in found]}
    measured = [Measured.of(each) for each in stored["measured"]]
    if options.json is not None:
        options.json.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    at, loopback = stored["environment"], measured[0].loopback
    print(f"{at['cpu']}, {at['cores']} cores, load {at['load_average_before']}, {at['date']}\n")
    print(
        "Measured on one machine, ms of CPU time a batch. Rates are batches a second, `model` is measured / model. A "
        f"message takes {1e3 * loopback.latency:.2f} ms, a connection has {loopback.bandwidth / 1e9:.1f} GB/s.\n"
    )
    print(costs_table(measured))
    for name, network in NETWORKS.items():
        print(f"Photographs a second by the model, {name}, 16 actors a node:\n")
        print(table(measured, network))
    if options.svg is not None:
        best = next((each for each in measured if each.batch == 32), measured[0])
        options.svg.write_text(draw(best), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
