"""Process whole batches, after ``aggregate``: one call for many items.

``aggregate(n)`` collects n items into a list, and the next stage gets lists. ``drop_last=True`` drops the remainder at
the end. A custom ``Aggregator`` decides when a batch is full: here by its size in bytes.
"""

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Aggregator


def read(index: int) -> bytes:
    """Make a record. Its length depends on the index."""
    return bytes([index % 256]) * (1 + index * 37 % 101)


def collate(batch: list[bytes]) -> tuple[int, bytes]:
    """Pad the records of a batch to the same length and join them. Works for a batch of any size."""
    width = max(map(len, batch))
    return len(batch), b"".join(record.ljust(width, b"\0") for record in batch)


class ByBytes(Aggregator[bytes, list[bytes]]):
    """Make batches of any number of records, at most ``num_bytes`` bytes in total."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self._records: list[bytes] = []

    def accumulate(self, item: bytes) -> list[bytes] | None:
        """Add one record. If it does not fit into the current batch, return that batch and begin a new one."""
        if sum(map(len, self._records)) + len(item) <= self.num_bytes:
            self._records.append(item)
            return None
        full, self._records = self._records, [item]
        return full or None

    def flush(self) -> list[bytes] | None:
        """Return the last batch, if there is one."""
        rest, self._records = self._records, []
        return rest or None


def run(input: int | ByBytes, *, drop_last: bool = False) -> list[tuple[int, bytes]]:
    builder = PipelineBuilder().add_source(range(100)).pipe(read)
    pipeline = builder.aggregate(input, drop_last=drop_last).pipe(collate, concurrency=2).add_sink().build()
    with pipeline.auto_stop():
        return list(pipeline)


def main() -> None:
    print("batches of 32:           ", sorted(size for size, _ in run(32)))
    print("without the last:        ", sorted(size for size, _ in run(32, drop_last=True)))
    print("batches of at most 1 KiB:", sorted(size for size, _ in run(ByBytes(1024))))


if __name__ == "__main__":
    main()
