"""The argument names that advice uses: those of a pipeline or of a loader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

#: Whose arguments a verdict names: those of ``build`` and ``pipe``, of ``DataLoader``, or of torch's loader.
User: TypeAlias = Literal["pipeline", "loader", "torch"]


class Terms(NamedTuple):
    """Names of arguments, and texts to format.

    Attributes:
        concurrency: Argument for the number of calls of a stage at once.
        num_threads: Argument for the number of threads.
        threads: How to give a number of threads.
        processes: How to run a stage in a number of processes. ``calls``: the calls they run, and as many queued.
        arguments: Arguments for these numbers.
        away: How to run all of it in another process.
        function: Where several calls run at once.
    """

    concurrency: str = "concurrency"
    num_threads: str = "num_threads"
    threads: str = "build(num_threads={number})"
    processes: str = (
        "run {stage} in processes: pipe({stage}, executor=ProcessPoolExecutor({number}), concurrency={calls})"
    )
    arguments: tuple[tuple[str, Literal["number", "calls"]], ...] = (
        ("max_workers", "number"),
        ("concurrency", "calls"),
    )
    away: str = "run_pipeline_in_subprocess()"
    function: str = "a stage"

    @property
    def has_one_number(self) -> bool:
        """Whether one argument sets both the number of calls and the number of threads."""
        return self.concurrency == self.num_threads


TERMS: Final[Mapping[User, Terms]] = {
    "pipeline": Terms(),
    "loader": Terms(
        concurrency="num_threads",
        threads="num_threads={number}",
        processes="build a pipeline in place of the loader, and run {stage} in processes: "
        "pipe({stage}, executor=ProcessPoolExecutor({number}), concurrency={calls})",
        arguments=(),
        away="iterate_in_subprocess()",
        function="the preprocessor",
    ),
    "torch": Terms(
        concurrency="num_workers",
        num_threads="num_workers",
        threads="num_workers={number}",
        processes="load in processes: workers='process', num_workers={number}",
        arguments=(("num_workers", "number"),),
        away="workers='process'",
        function="collate_fn",
    ),
}
