"""Replace ``torch.utils.data.DataLoader`` with a pipeline: threads call the ``__getitem__`` of the dataset, in order.

A map-style dataset needs no change. The indices are the source, ``__getitem__`` is the op, and
``output_order="input"`` keeps the order of the sampler, in whatever order the calls finish. ``__getitem__`` must be
thread-safe. Here it is, because each call opens its own file. Use a library that releases the GIL to decode.
"""

import random
import tempfile
import zlib
from pathlib import Path

from spdl.dataloader import PipelineBuilder

NUM_WORKERS = 4
BATCH_SIZE = 8
PREFETCH_FACTOR = 2


class FolderDataset:
    """Compressed samples, one file each, with the label in the file name."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.z"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        path = self.paths[index]
        return zlib.decompress(path.read_bytes()), int(path.stem.partition("-")[2])


def make_samples(folder: Path, num_samples: int) -> None:
    for index in range(num_samples):
        sample = random.Random(index).randbytes(1000)
        (folder / f"{index:04}-{index % 10}.z").write_bytes(zlib.compress(sample, 1))


def collate(samples: list[tuple[bytes, int]]) -> tuple[bytes, list[int]]:
    """Join the samples of a batch. With torch, use ``torch.utils.data.default_collate`` instead."""
    return b"".join(data for data, _ in samples), [label for _, label in samples]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        make_samples(Path(name), 100)
        dataset = FolderDataset(Path(name))
        sampler = random.Random(0).sample(range(len(dataset)), len(dataset))
        pipeline = (
            PipelineBuilder()
            .add_source(sampler)
            .pipe(dataset.__getitem__, concurrency=NUM_WORKERS, output_order="input")
            .aggregate(BATCH_SIZE)
            .pipe(collate)
            .add_sink(PREFETCH_FACTOR)
            .build(num_threads=NUM_WORKERS)
        )
        labels = []
        num_batches = 0
        with pipeline.auto_stop():
            for _data, batch_labels in pipeline:
                labels.extend(batch_labels)
                num_batches += 1
        in_order = labels == [index % 10 for index in sampler]
        print(f"{num_batches} batches, {len(labels)} samples, in the sampler's order: {in_order}")


if __name__ == "__main__":
    main()
