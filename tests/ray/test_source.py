"""``RaySource`` without Ray: anything with the methods of a Dataset."""

from collections.abc import Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.ray import RaySource


class Rows:
    """Has what a source needs of a Dataset."""

    def iter_rows(self) -> Iterator[dict[str, int]]:
        return ({"id": number} for number in range(10))

    def iter_batches(self, *, batch_size: int, drop_last: bool = False) -> Iterator[list[int]]:
        for start in range(0, 10, batch_size):
            batch = list(range(start, min(start + batch_size, 10)))
            if len(batch) == batch_size or not drop_last:
                yield batch


def test_each_pass_is_an_epoch_of_the_rows() -> None:
    """A pipeline reads them again."""
    pipeline = PipelineBuilder().add_source(RaySource(Rows()), continuous=True).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        for _ in range(2):
            assert [row["id"] for row in pipeline] == list(range(10))


def test_batches_are_made_by_ray() -> None:
    """With its options."""
    assert list(RaySource(Rows(), batch_size=4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(RaySource(Rows(), batch_size=4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dataset": [1, 2]}, TypeError, "dataset must be a Dataset or a DataIterator of Ray, got .*no iter_rows"),
        ({"dataset": Rows}, TypeError, "dataset must be a Dataset"),
        ({"dataset": Rows(), "batch_size": 0}, ValueError, "batch_size must be >= 1 or None, got 0"),
        ({"dataset": Rows(), "batch_size": "4"}, TypeError, "batch_size"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """When the source is made."""
    with pytest.raises(error, match=message):
        RaySource(**arguments)
