"""The declared order holds whatever order the calls end in; and work that can run, runs."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder
from tests.strategies.profiles import cases
from tests.strategies.schedules import Gates
from tests.strategies.watch import BOUND, bounded, nothing_left


@cases(300)
@given(
    num_items=st.integers(0, 10),
    concurrency=st.integers(1, 5),
    ordered=st.booleans(),
    lane=st.sampled_from(["sync", "async", "executor"]),
    dropped=st.sets(st.integers(0, 9)),
    failing=st.sets(st.integers(0, 9)),
    data=st.data(),
)
def test_results_come_in_the_declared_order_whatever_ends_first(
    num_items: int,
    concurrency: int,
    ordered: bool,
    lane: str,
    dropped: set[int],
    failing: set[int],
    data: st.DataObject,
) -> None:
    """As calls end, or as items came in; each result as soon as its turn has come."""

    def op(item: int) -> int | None:
        if item in failing:
            raise ValueError(item)
        return None if item in dropped else item

    gates = Gates(num_items)
    executor = ThreadPoolExecutor(concurrency) if lane == "executor" else None
    builder: PipelineBuilder[int, int] = PipelineBuilder()
    builder.add_source(range(num_items))
    gated = gates.gated_async(op) if lane == "async" else gates.gated(op)
    builder.pipe(
        gated,
        concurrency=concurrency,
        output_order="input" if ordered else "completion",
        executor=executor,
        max_failures=-1,
    )
    pipeline = builder.add_sink().build(num_threads=concurrency)

    with nothing_left(), ExitStack() as stack:
        stack.callback(pipeline.stop)
        if executor is not None:
            stack.callback(executor.shutdown)
        stack.callback(gates.open_all)
        pipeline.start(timeout=BOUND)
        inside: list[int] = []
        ended: set[int] = set()
        num_begun = num_out = 0
        while num_begun < num_items or inside:
            # In input order a result keeps the slot of its call until its turn has come; a failure has no result.
            waiting = {item for item in ended - failing if item >= num_out} if ordered else set()
            while num_begun < num_items and len(inside) + len(waiting) < concurrency:
                gates.wait_arrival(num_begun)
                inside.append(num_begun)
                num_begun += 1
            assert not any(gates.arrived[item].is_set() for item in range(num_begun, num_items)), "too many calls run"
            item = inside.pop(data.draw(st.integers(0, len(inside) - 1)))
            gates.let_go(item)
            ended.add(item)
            due = [item]
            if ordered:
                due = []
                while num_out in ended:
                    due.append(num_out)
                    num_out += 1
            with bounded("get_item()"):
                for expected in due:
                    if expected not in dropped | failing:
                        assert pipeline.get_item(timeout=BOUND) == expected
        with bounded("get_item()"), pytest.raises(EOFError):
            pipeline.get_item(timeout=BOUND)
