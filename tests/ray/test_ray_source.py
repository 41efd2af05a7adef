"""``RaySource`` of Ray Datasets."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.ray import RaySource

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="Ray keeps processes, threads and connections"),
    pytest.mark.filterwarnings("default"),  # Ray's own
]

NUM_ROWS = 40


@pytest.fixture
def dataset(ray: Any) -> Any:
    pytest.importorskip("pyarrow")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data.range(NUM_ROWS, override_num_blocks=4)


def read(source: RaySource) -> list[int]:
    """Return the rows of one epoch."""
    pipeline = PipelineBuilder().add_source(source).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        return [row["id"] for row in pipeline]


def test_a_pipeline_reads_a_dataset(dataset: Any) -> None:
    """Rows, and batches as Ray makes them."""
    assert sorted(read(RaySource(dataset))) == list(range(NUM_ROWS))
    batches = list(RaySource(dataset, batch_size=16, batch_format="numpy"))
    assert [len(batch["id"]) for batch in batches] == [16, 16, 8]


def test_each_rank_reads_its_iterator_of_a_split(dataset: Any) -> None:
    """Together they read each row once, in each epoch."""
    sources = [RaySource(iterator) for iterator in dataset.streaming_split(2, equal=True)]
    with ThreadPoolExecutor(2) as ranks:
        for _ in range(2):
            found = list(ranks.map(read, sources))
            assert len(found[0]) == len(found[1]) == NUM_ROWS // 2
            assert sorted(found[0] + found[1]) == list(range(NUM_ROWS))
