"""Nothing is lost or doubled, whatever dies: each item comes out, is dropped, or is counted as failed."""

from multiprocessing import forkserver
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left

from . import ops
from .running import run

FATES = st.sampled_from(["come", "come", "come", "drop", "raise", "exit", "kill", "abort"])


@pytest.mark.slow
@pytest.mark.parametrize("hooked", [False, True])
@cases(12)
@given(
    fates=st.lists(FATES, max_size=12),
    concurrency=st.integers(1, 3),
    order=st.sampled_from(["completion", "input"]),
    is_generator=st.booleans(),
)
def test_in_is_out_plus_dropped_plus_failed(
    hooked: bool, fates: list[str], concurrency: int, order: str, is_generator: bool
) -> None:
    """With deaths at random, in any order and concurrency; and no process is left."""
    from .running import Hook

    # What the process keeps from its first start of a child on is not left by the pipeline.
    forkserver.ensure_running()
    hooks: Any = (lambda info: [Hook()]) if hooked else None
    op = ops.yield_by_chance if is_generator else ops.die_by_chance
    with nothing_left():
        outputs, stats = run(op, list(enumerate(fates)), concurrency=concurrency, output_order=order, hooks=hooks)
    kept = [number for number, fate in enumerate(fates) if fate == "come" or (is_generator and fate == "raise")]
    failed = [number for number, fate in enumerate(fates) if fate not in ("come", "drop")]
    assert (outputs if order == "input" or concurrency == 1 else sorted(outputs)) == kept
    assert stats.num_failures == len(failed)
    assert {failure.origin for failure in stats.failures} == set(failed)
    assert stats.num_emitted == len(kept)
    assert stats.num_in_flight == 0
    if not is_generator:
        assert stats.num_dropped == fates.count("drop")
        assert stats.num_calls == len(fates)
