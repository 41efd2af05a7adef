"""The requirements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks._contest import result as _contest
from benchmarks._contest.figures import Figure

from ._cells import AUTO_DATASETS, LAST, MEMORY_BATCHES, TORCH, WORKERS, Cell
from ._result import Result, with_batches

RATE_OVER_TORCH, FIRST_OVER_TORCH, AUTO_OVER_BETTER = 2.0, 5.0, 0.95


@dataclass(frozen=True, slots=True)
class Requirement:
    """One of the requirements.

    Attributes:
        needs: The cases that it needs.
        figure: A function that computes it from the result.
    """

    needs: Sequence[str]
    figure: Callable[[Result], Figure]

    def cases(self) -> Sequence[str]:
        return self.needs

    def measured(self, result: _contest.Result) -> Figure:
        return self.figure(Result(result.stored))


def requirements() -> list[Requirement]:
    """All requirements."""
    every = [cell.name for workers in WORKERS for cell in with_batches(workers)]
    return [
        Requirement(every, _throughput),
        *(
            Requirement([cell.name for cell in with_batches(workers)], partial(_first_batch, workers=workers))
            for workers in WORKERS
        ),
        *(
            Requirement(
                [f"{Cell(batch, workers).name}-memory" for batch in MEMORY_BATCHES], partial(_memory, workers=workers)
            )
            for workers in WORKERS
        ),
        *(Requirement([f"auto-{dataset}"], partial(_auto, dataset=dataset)) for dataset in AUTO_DATASETS),
    ]


def figures_of(result: Result) -> list[Figure]:
    """All requirements, whether measured or not."""
    return [requirement.figure(result) for requirement in requirements()]


def _throughput(result: Result) -> Figure:
    """The best throughput of each, over all numbers of workers and batch sizes."""
    title, required = "throughput: the last step's best over torch's best", f">= {RATE_OVER_TORCH:g}x"
    ours, theirs = result.best(LAST), result.best(TORCH)
    if ours is None or theirs is None:
        return Figure(title, required, None, None, "x", passed=False)
    ratio = ours[0] / theirs[0]
    spread = _ratios(result.values("rate", ours[1], LAST), result.values("rate", theirs[1], TORCH))
    return Figure(title, required, ratio, spread, "x", passed=ratio >= RATE_OVER_TORCH)


def _first_batch(result: Result, workers: int) -> Figure:
    """Of the size of batches with which it is worst."""
    required = f">= {FIRST_OVER_TORCH:g}x"
    title = f"first batch, {workers} worker{'s' if workers > 1 else ''}: torch's time over the last step's"
    worst: tuple[float, Cell] | None = None
    for cell in with_batches(workers):
        theirs, ours = result.value("first", cell, TORCH), result.value("first", cell, LAST)
        if theirs is None or ours is None:
            return Figure(title, required, None, None, "x", passed=False)
        if worst is None or theirs / ours < worst[0]:
            worst = theirs / ours, cell
    assert worst is not None  # there are sizes
    ratio, cell = worst
    spread = _ratios(result.values("first", cell, TORCH), result.values("first", cell, LAST))
    title += f" (worst: batches of {cell.batch})"
    return Figure(title, required, ratio, spread, "x", passed=ratio >= FIRST_OVER_TORCH)


def _memory(result: Result, workers: int) -> Figure:
    """Of the size of batches with which it is worst."""
    title = f"memory of the process tree, {workers} worker{'s' if workers > 1 else ''}: the last step's over torch's"
    ratios = []
    for cell in (Cell(batch, workers) for batch in MEMORY_BATCHES):
        ours, theirs = result.value("memory", cell, LAST), result.value("memory", cell, TORCH)
        if not ours or not theirs:
            return Figure(title, "< 1x", None, None, "x", passed=False)
        ratios.append(ours / theirs)
    return Figure(title, "< 1x", max(ratios), (min(ratios), max(ratios)), "x", passed=max(ratios) < 1)


def _auto(result: Result, dataset: str) -> Figure:
    title = f'workers="auto" on {dataset}: its speed over that of the better of the two'
    required = f">= {AUTO_OVER_BETTER:g}"
    thread, process, auto = (result.epochs(dataset, mode) for mode in ("thread", "process", "auto"))
    if not (thread and process and auto):
        return Figure(title, required, None, None, "", passed=False)
    better = thread if median(thread) <= median(process) else process
    ratio = median(better) / median(auto)
    rounds = [one / other for one, other in zip(better, auto, strict=True)]
    return Figure(title, required, ratio, (min(rounds), max(rounds)), "", passed=ratio >= AUTO_OVER_BETTER)


def _ratios(of: Sequence[float], over: Sequence[float]) -> tuple[float, float]:
    """The minimum and the maximum of the ratio over all pairs of turns."""
    return min(of) / max(over), max(of) / min(over)
