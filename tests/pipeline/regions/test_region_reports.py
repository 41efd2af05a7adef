"""Exceptions that refuse to be noted, shown or logged, in the workers of a region and on the way there."""

from collections.abc import Callable
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS
from tests.pipeline.regions.threads import ThreadWorkersConfig
from tests.strategies.hostile import EXCEPTIONS, hostile_log
from tests.strategies.watch import BOUND, bounded

#: Those that cost the item they were raised for.
ORDINARY = [name for name, make in EXCEPTIONS.items() if isinstance(make(), Exception)]


class Troubled:
    """An item that raises as it crosses, on one side or the other."""

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self.where = where

    def __reduce__(self) -> Any:
        if self.where == "going":
            raise EXCEPTIONS[self.name]()
        return _arrive, (self.name,)


def _arrive(name: str) -> Any:
    raise EXCEPTIONS[name]()


def run(op: Callable[[Any], Any], items: list[Any]) -> tuple[list[Any], int]:
    """What comes out, and how many items failed."""
    builder: Any = PipelineBuilder().add_source(items).to(ThreadWorkersConfig(2)).pipe(op).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(num_threads=2)
    found = []
    with bounded("a read or the stop"), pipeline.auto_stop(timeout=BOUND):
        try:
            for item in pipeline.get_iterator(timeout=BOUND):
                found.append(item)  # noqa: PERF402 - what came before a failure is asked for
        except PipelineFailure:
            return found, -1
    return found, pipeline.stats().stages[1].num_failures


@pytest.mark.parametrize("name", ORDINARY)
def test_an_op_in_a_worker_may_raise_anything(name: str) -> None:
    """The item fails, and the others come out."""

    def op(item: int) -> int:
        if item == 1:
            raise EXCEPTIONS[name]()
        return item

    found, num_failures = run(op, [0, 1, 2, 3])
    assert sorted(found) == [0, 2, 3]
    assert num_failures == 1


@pytest.mark.parametrize("where", ["going", "arriving"])
@pytest.mark.parametrize("name", ORDINARY)
def test_an_item_may_refuse_to_cross_with_anything(name: str, where: str) -> None:
    """It fails where it stands."""
    found, num_failures = run(lambda item: item, [0, Troubled(name, where), 2, 3])
    assert sorted(found) == [0, 2, 3]
    assert num_failures == 1


@pytest.mark.parametrize("where", ["going", "arriving"])
@pytest.mark.parametrize("name", ORDINARY)
def test_an_output_may_refuse_to_cross_with_anything(name: str, where: str) -> None:
    """Its item has failed."""

    def op(item: int) -> Any:
        return Troubled(name, where) if item == 1 else item

    found, num_failures = run(op, [0, 1, 2, 3])
    assert sorted(found) == [0, 2, 3]
    assert num_failures == 1


@pytest.mark.parametrize("log", ["handler-exits", "filter"])
def test_the_log_of_a_worker_may_raise(log: str) -> None:
    """It costs the record only."""

    def op(item: int) -> int:
        if item == 1:
            raise EXCEPTIONS["frozen"]()
        return item

    with hostile_log(log):
        found, num_failures = run(op, [0, 1, 2, 3])
    assert sorted(found) == [0, 2, 3]
    assert num_failures == 1
