"""Tables of the measurements."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks._contest.figures import head, row, short

Turns = Sequence[Mapping[str, float]]


def row_of(
    way: str, num_samples: int, idle: Turns, training: Turns, steps: Sequence[float], pss: int
) -> dict[str, Any]:
    """One way in one case.

    Args:
        num_samples: The number of samples in an epoch.
        idle: The times of a consumer that does nothing with its batches; see ``Trainer.time``.
        training: The times of a consumer that does a training step for each batch.
        steps: The seconds of all steps of an epoch with no loader running, one value per round.
        pss: The proportional set size in bytes of all processes together.
    """
    slowdowns = [turn["stepping"] / alone for turn, alone in zip(training, steps, strict=True)]
    rates = [num_samples / turn["wall"] for turn in idle]
    return {
        "way": way,
        "rate": median(rates),
        "rate_min": min(rates),
        "rate_max": max(rates),
        "trainer_cpu_s_per_1000": median(1000 * turn["cpu"] / num_samples for turn in idle),
        "rate_training": median(num_samples / turn["wall"] for turn in training),
        "without_python": median(turn["without_python"] / alone for turn, alone in zip(training, steps, strict=True)),
        "slowdown": median(slowdowns),
        "slowdown_min": min(slowdowns),
        "slowdown_max": max(slowdowns),
        "pss_mb": pss / 1e6,
    }


def page(
    environment: Mapping[str, Any],
    versions: Mapping[str, Mapping[str, str]],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    titles: Mapping[str, str],
) -> str:
    """The report in Markdown."""
    parts = []
    for name, rows in tables.items():
        parts += [f"### `{name}`: {titles[name]}", _table(rows)]
    packages = {f"{package} {number}": None for each in versions.values() for package, number in each.items()}
    parts.append(
        f"{environment['python']}, {environment['cpu']}, {environment['cores']} cores, {environment['os']},"
        f" {environment['date'][:10]}, revision {environment['revision']}; {', '.join(packages)}."
        f" `{environment['command']}`"
    )
    return "\n\n".join(parts)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = head(
        [
            "",
            "samples/s (min to max)",
            "CPU s of the trainer, 1000 samples",
            "samples/s beside training",
            "a training step takes (min to max)",
            "of that waiting for Python",
            "memory, MB",
        ]
    )
    for each in rows:
        rate = f"{short(each['rate'])} ({short(each['rate_min'])} to {short(each['rate_max'])})"
        slowdown = f"{short(each['slowdown'])}x ({short(each['slowdown_min'])} to {short(each['slowdown_max'])})"
        cells = [each["way"], rate, short(each["trainer_cpu_s_per_1000"]), short(each["rate_training"]), slowdown]
        lines.append(row([*cells, f"{short(each['without_python'])}x", short(each["pss_mb"])]))
    return "\n".join(lines)
