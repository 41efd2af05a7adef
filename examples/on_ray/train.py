"""Run Ray Train with two ranks; each rank has its own pipeline, and two actors decode its images.

    pip install 'spdl-native[ray]' 'ray[train]' torch
    python examples/on_ray/train.py [PHOTOGRAPH ...]

The model learns which photograph a crop was cut from. The sampler splits each epoch between the ranks. They make the
same number of steps, and save the model and the position in the data together. In the first attempt, rank 1 is killed
in the middle of the second epoch. Ray Train then restarts both ranks, and they continue with the remaining batches.
Ray only counts CPUs and does not check that they exist, so the example also runs on a machine with two.
"""

import os
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed
from torch.nn.functional import cross_entropy

import spdl.io
from spdl import resume
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from spdl.source import DistributedKeyedSampler, ImageFolder

NUM_RANKS, ACTORS_PER_RANK = 2, 2
NUM_EPOCHS, BATCH_SIZE, NUM_CROPS, SAVE_EVERY = 3, 16, 192, 4
DIE_AT = 10  # the step; an epoch has 6
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "guides" / "pictures"
TRANSFORM = spdl.io.ImageTransform(48, crop=spdl.io.RandomResizedCrop(), flip=0.5, layout="NCHW")


def load(paths: Sequence[str], indices: list[int], rng: Any) -> tuple[Any, list[int]]:
    """Load a batch. Runs in an actor, so all nodes must be able to read the files."""
    seeds = spdl.io.sample_seeds(rng.seed, 0, indices)
    images = spdl.io.load_image_batch([paths[index] for index in indices], transform=TRANSFORM, seeds=seeds)
    return spdl.io.to_numpy(images), indices


def make_pipeline(paths: Sequence[str], rank: int, world_size: int) -> Pipeline[tuple[Any, list[int]]]:
    """Make a pipeline of full batches from this rank's share of each epoch. The rank has its own actors."""
    sampler = DistributedKeyedSampler(len(paths), rank=rank, world_size=world_size, seed=0)
    return (
        PipelineBuilder()
        .add_source(sampler, continuous=True)
        .aggregate(BATCH_SIZE, drop_last=True)  # before the region: all ranks make the same number of batches
        .to(RayActors(ACTORS_PER_RANK, num_cpus=0.5, restart=True))
        .pipe(partial(load, paths), rng=True)
        .to(MAIN_PROCESS)
        .add_sink(2)
        .build(num_threads=1, resumable=True)
    )


def make_model(num_classes: int) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for num_in, num_out in ((3, 16), (16, 32)):
        layers += torch.nn.Conv2d(num_in, num_out, 5, 2), torch.nn.BatchNorm2d(num_out), torch.nn.ReLU()
    layers += torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, num_classes)
    return torch.nn.Sequential(*layers)


def gather(values: list[int]) -> list[int]:
    """Return the values of all ranks, in one list."""
    found: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, values)
    return [value for each in found for value in each]


def train(config: dict[str, Any]) -> None:
    """Train. Ray Train runs this in each rank."""
    context = ray.train.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = ImageFolder(config["folder"])
    paths, labels = [path for path, _ in folder], torch.tensor([label for _, label in folder])
    model = ray.train.torch.prepare_model(make_model(int(labels.max()) + 1))  # DDP
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pipeline = make_pipeline(paths, rank, world_size)
    epoch = step = 0
    read: list[int] = []  # the indices read in this epoch
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as path:
            saved = torch.load(Path(path) / "state.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        pipeline.load_state_dict(saved["data"])  # before the first read
        epoch, step = saved["epoch"], saved["step"]
        read = saved["read"] if rank == 0 else []  # rank 0 keeps those of all ranks
    metrics = {"resumed_at": step}
    with pipeline.auto_stop():
        while epoch < NUM_EPOCHS:
            for images, indices in pipeline:  # the rest of the epoch, if a state was loaded
                batch = torch.from_numpy(images.copy()).float() / 255  # arrays from another node are read-only
                loss = cross_entropy(model(batch), labels[indices])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                read += indices
                if step == DIE_AT and rank == 1 and checkpoint is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step % SAVE_EVERY == 0:
                    save(model, optimizer, pipeline, metrics, {"epoch": epoch, "step": step, "read": gather(read)})
            all_read = sorted(gather(read))
            metrics |= {"epoch": epoch, "step": step, "loss": loss.item()}
            metrics |= {"num_read": len(all_read), "each_once": all_read == list(range(len(paths)))}
            epoch, read = epoch + 1, []
            save(model, optimizer, pipeline, metrics, {"epoch": epoch, "step": step, "read": []})
            if rank == 0:
                print(f"epoch {metrics['epoch']}: {step} steps, loss {metrics['loss']:.2f}", flush=True)


def save(model: Any, optimizer: Any, pipeline: Any, metrics: dict[str, Any], state: dict[str, Any]) -> None:
    """Save the model and the positions of all ranks in the data. Every rank must call this at the same step."""
    data = resume.gather(pipeline.state_dict())
    if ray.train.get_context().get_world_rank() > 0:
        ray.train.report(metrics)
        return
    state = state | {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": data}
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder) / "state.pt")
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def cut(folder: Path, photographs: Sequence[Path]) -> None:
    """Make a folder of crops, one class, for each photograph."""
    draw = random.Random(0)
    for photograph in photographs:
        pixels = spdl.io.to_numpy(spdl.io.load_image(photograph))
        height, width, _ = pixels.shape
        (folder / photograph.stem).mkdir(parents=True)
        for number in range(NUM_CROPS // len(photographs)):
            size = draw.randint(min(height, width) // 3, min(height, width) // 2)
            top, left = draw.randint(0, height - size), draw.randint(0, width - size)
            crop = pixels[top : top + size, left : left + size].copy()
            spdl.io.save_image(folder / photograph.stem / f"{number:03}.jpg", crop)


def main() -> None:
    photographs = [Path(each) for each in sys.argv[1:]] or [
        PICTURES / "interpolations.jpg",
        PICTURES / "fast_and_exact.jpg",
    ]
    with tempfile.TemporaryDirectory() as folder:
        cut(Path(folder) / "train", photographs)
        ray.init("local", num_cpus=NUM_RANKS + 2, include_dashboard=False)  # in a cluster: ray.init()
        trainer = ray.train.torch.TorchTrainer(
            train,
            train_loop_config={"folder": str(Path(folder) / "train")},
            # The CPUs of the actors are reserved in addition to these.
            scaling_config=ray.train.ScalingConfig(num_workers=NUM_RANKS, resources_per_worker={"CPU": 0.5}),
            run_config=ray.train.RunConfig(
                storage_path=str(Path(folder) / "runs"), failure_config=ray.train.FailureConfig(max_failures=1)
            ),
        )
        metrics = trainer.fit().metrics
        ray.shutdown()
    print(
        f"{NUM_RANKS} ranks, {NUM_RANKS * ACTORS_PER_RANK} actors: {metrics['step']} steps, "
        f"resumed after step {metrics['resumed_at']}, loss {metrics['loss']:.2f}, "
        f"{metrics['num_read']} images in the last epoch, each once: {metrics['each_once']}"
    )


if __name__ == "__main__":
    main()
