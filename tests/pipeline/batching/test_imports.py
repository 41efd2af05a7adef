"""Batching needs no library of arrays, and imports none."""

import pytest

from tests.support.child import run_child


@pytest.mark.slow
@pytest.mark.parametrize("how", ["None", "type(sys)('half imported')"])
def test_lists_are_packed_without_numpy_and_torch(how: str) -> None:
    """Where they are not installed, and while another thread is importing them."""
    run_child(
        f"""
        import sys

        sys.modules["numpy"] = sys.modules["torch"] = {how}

        from spdl.pipeline import PipelineBuilder
        from spdl.pipeline.batching import *

        for aggregator in (CostBudget(4), LengthBuckets([2], 2), PackSequences(4), MaxWait(2, 60.0)):
            pipeline = PipelineBuilder().add_source([[1, 2], [3]]).aggregate(aggregator).add_sink().build(num_threads=1)
            with pipeline.auto_stop():
                (batch,) = pipeline
        print(PackSequences(4).fill_rate)
        """
    ).check("1.0")
