"""Run Ray Train with two ranks that share a Ray Dataset; each rank decodes its rows in its own pipeline.

    pip install 'spdl-native[ray]' 'ray[data,train]' torch
    python examples/on_ray/train_on_dataset.py [PHOTOGRAPH ...]

Ray Data gives the same number of rows to each rank, in the order of the ranks' requests. It guarantees no order, so the
position in the data cannot be saved; ``train.py`` shows how to save it with a sampler. The model learns which
photograph a crop was cut from.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.data
import ray.train
import ray.train.torch
import torch
import torch.distributed
from torch.nn.functional import cross_entropy

import spdl.io
from spdl.pipeline import PipelineBuilder
from spdl.ray import RaySource

NUM_RANKS, NUM_EPOCHS, BATCH_SIZE, NUM_CROPS = 2, 3, 16, 192
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "guides" / "pictures"
CROP = spdl.io.RandomResizedCrop(scale=(0.1, 0.3))
TRANSFORM = spdl.io.ImageTransform(48, crop=CROP, flip=0.5, layout="NCHW")


def load(rows: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Load the crops of a batch of rows, in one native call without the GIL."""
    images = spdl.io.load_image_batch(list(rows["path"]), transform=TRANSFORM, seeds=rows["id"].tolist())
    return spdl.io.to_torch(images), torch.tensor(rows["label"].tolist()), rows["id"].tolist()


def train(config: dict[str, Any]) -> None:
    """Train. Ray Train runs this in each rank."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank = ray.train.get_context().get_world_rank()
    layers = [torch.nn.Conv2d(3, 16, 5, 2), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)]
    layers += torch.nn.Flatten(), torch.nn.Linear(16, config["num_classes"])
    model = ray.train.torch.prepare_model(torch.nn.Sequential(*layers))  # DDP
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    shard = ray.train.get_dataset_shard("train")  # this rank's iterator of ``streaming_split``
    for epoch in range(NUM_EPOCHS):
        source = RaySource(shard, batch_size=BATCH_SIZE, batch_format="numpy", drop_last=True)
        pipeline = PipelineBuilder().add_source(source).pipe(load, concurrency=2).add_sink(2).build(num_threads=2)
        read: list[int] = []
        with pipeline.auto_stop():
            for images, labels, numbers in pipeline:
                loss = cross_entropy(model(images.float() / 255), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                read += numbers
        found: list[Any] = [None] * NUM_RANKS
        torch.distributed.all_gather_object(found, read)
        num_read = sorted(map(len, found))
        each_once = sorted(number for each in found for number in each) == list(range(NUM_CROPS))
        metrics = {"epoch": epoch, "loss": loss.item(), "num_read": num_read, "each_once": each_once}
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), Path(folder) / "model.pt")
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder) if rank == 0 else None)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.2f}, {num_read} images", flush=True)


def main() -> None:
    photographs = sys.argv[1:] or [str(PICTURES / name) for name in ("interpolations.jpg", "fast_and_exact.jpg")]
    num_classes = len(photographs)
    rows = [{"id": n, "path": photographs[n % num_classes], "label": n % num_classes} for n in range(NUM_CROPS)]
    with tempfile.TemporaryDirectory() as folder:
        ray.init("local", num_cpus=NUM_RANKS + 2, include_dashboard=False)  # in a cluster: ray.init()
        trainer = ray.train.torch.TorchTrainer(
            train,
            train_loop_config={"num_classes": num_classes},
            datasets={"train": ray.data.from_items(rows, override_num_blocks=8)},
            scaling_config=ray.train.ScalingConfig(num_workers=NUM_RANKS, resources_per_worker={"CPU": 0.5}),
            run_config=ray.train.RunConfig(storage_path=folder),
        )
        metrics = trainer.fit().metrics
        ray.shutdown()
    print(
        f"{NUM_RANKS} ranks: loss {metrics['loss']:.2f}, {metrics['num_read']} images in the last epoch, "
        f"each once: {metrics['each_once']}"
    )


if __name__ == "__main__":
    main()
