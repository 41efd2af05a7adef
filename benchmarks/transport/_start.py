"""How long until a pipeline in a subprocess gives its first item: ``python -m benchmarks.transport._start METHOD``.

Run by an interpreter that has this checkout or the reference. Prints milliseconds from the call to the first item, as
JSON: ``first`` for the first pipeline of a fresh process, ``second`` for another one after the first has ended.
"""

import gc
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess


def _same(item: int) -> int:
    return item


def _milliseconds(method: str) -> float:
    config: Any = PipelineBuilder().add_source(range(10)).pipe(_same).add_sink(3).get_config()
    start = time.perf_counter()
    items: Iterable[int] = run_pipeline_in_subprocess(config, num_threads=1, mp_context=method)
    for item in items:
        taken = time.perf_counter() - start
        assert item == 0
        break
    del items
    gc.collect()
    return 1e3 * taken


if __name__ == "__main__":
    print(json.dumps({"first": _milliseconds(sys.argv[1]), "second": _milliseconds(sys.argv[1])}))
