"""Runs a pipeline without end in the cluster whose address is the argument, and prints the process of its actor."""

import sys
from itertools import count
from typing import Any

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from tests.pipeline.regions import ops


def main(address: str) -> None:
    import ray

    ray.init(address=address, log_to_driver=False)
    builder: Any = PipelineBuilder().add_source(count()).to(RayActors(1)).pipe(ops.with_pid)
    pipeline = builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        for number, (_, pid) in enumerate(pipeline):
            if not number:
                print("pid", pid, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
