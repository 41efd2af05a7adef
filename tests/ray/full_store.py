"""Runs a pipeline on a cluster of its own, whose object store and disk are full before its outputs are let go of.

Prints the error that the pipeline ended with, whether what had come is whole, and whether its actor has ended.
"""

import os
import select
from importlib import import_module
from typing import Any

import numpy as np

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from tests.support.timeouts import TIMEOUT

#: The smallest store that Ray makes; and a disk that counts as full, so that nothing is moved there.
_STORE = 80 << 20
_CONFIG = {"local_fs_capacity_threshold": 0.0, "local_fs_monitor_interval_ms": 10, "object_store_full_delay_ms": 10}


def large(item: int) -> tuple[np.ndarray[Any, Any], int]:
    return np.full(2_500_000, item, np.int32), os.getpid()


def main() -> None:
    ray: Any = import_module("ray")
    cluster_utils: Any = import_module("ray.cluster_utils")
    workers: Any = import_module("spdl.ray._workers")
    workers.open_door = lambda *_: None  # what goes through shared memory needs no store
    head = {"num_cpus": 1, "object_store_memory": _STORE, "include_dashboard": False, "_system_config": _CONFIG}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
        read()
    finally:
        ray.shutdown()
        cluster.shutdown()


def read() -> None:
    builder: Any = PipelineBuilder().add_source(range(100)).to(RayActors(1, restart=True)).pipe(large)
    pipeline = builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    kept: list[Any] = []
    process = -1
    try:
        with pipeline.auto_stop():
            for array, pid in pipeline.get_iterator(timeout=TIMEOUT):
                if not kept:
                    process = os.pidfd_open(pid)
                kept.append(array)
    except PipelineFailure as failure:
        (error,) = failure.exceptions
        print(f"{type(error).__name__}: {error}", flush=True)
    print("kept", all((array == number).all() for number, array in enumerate(kept)), len(kept) < 100)
    print("the actor has ended:", bool(select.select([process], [], [], TIMEOUT)[0]))


if __name__ == "__main__":
    main()
