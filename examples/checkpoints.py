"""Resume a killed training run exactly: its final model is the same as that of an uninterrupted run.

The training runs in its own process, and saves the model and the position in the data together. SIGKILL ends it between
two checkpoints, and it is started again. In a second part, two ranks stop in the middle of an epoch, and four ranks
read the rest of the epoch.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from spdl import resume
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.source import DistributedKeyedSampler

NUM_EPOCHS, NUM_ITEMS, BATCH_SIZE = 3, 256, 16
SAVE_EVERY = 5


def load(index: int) -> tuple[float, float]:
    """Load a sample: a point on a line."""
    x = index / NUM_ITEMS
    return x, 3 * x - 1


def make_pipeline(rank: int = 0, world_size: int = 1) -> Pipeline[list[tuple[float, float]]]:
    sampler = DistributedKeyedSampler(NUM_ITEMS, rank=rank, world_size=world_size, seed=0)
    return (
        PipelineBuilder()
        .add_source(sampler, continuous=True)
        .pipe(load, concurrency=4, output_order="input")
        .aggregate(BATCH_SIZE, drop_last=True)
        .add_sink(3)
        .build(num_threads=2, resumable=True)
    )


def train(path: Path, *, kill_at: int = 0) -> None:
    """Train to the end, from the checkpoint if there is one. Kill this process after step ``kill_at``."""
    weights, step, epoch = [0.0, 0.0], 0, 0
    pipeline = make_pipeline()
    if path.exists():
        saved = resume.load(path)
        weights, step, epoch = saved["weights"], saved["step"], saved["epoch"]
        pipeline.load_state_dict(saved["data"])  # before the first read
        print(f"resumed after step {step}", flush=True)
    with pipeline.auto_stop():
        while epoch < NUM_EPOCHS:
            for batch in pipeline:  # the rest of the epoch, if a state was loaded
                for x, y in batch:
                    error = weights[0] * x + weights[1] - y
                    weights = [weights[0] - 0.1 * error * x, weights[1] - 0.1 * error]
                step += 1
                if step % SAVE_EVERY == 0:
                    data = pipeline.state_dict()
                    resume.save(path, {"weights": weights, "step": step, "epoch": epoch, "data": data})
                print(f"step {step}", flush=True)
                if step == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
            epoch += 1
    print(f"weights {weights}", flush=True)


def run(path: Path, *, kill_at: int = 0) -> list[str]:
    """Train in a child process, which is killed after that step. Return the lines that it has printed."""
    command = [sys.executable, __file__, str(path), str(kill_at)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=kill_at == 0).stdout.splitlines()


def on_other_ranks() -> None:
    """Read four batches on each of two ranks, and the rest on four ranks. A real rank has its own process."""
    read: list[Any] = []
    states = []
    for rank in range(2):
        pipeline = make_pipeline(rank, 2)
        with pipeline.auto_stop():
            for _ in range(4):
                read += pipeline.get_item(timeout=60)
            states.append(pipeline.state_dict())
    state = resume.gather(states)  # with torch.distributed, each rank calls gather(pipeline.state_dict())
    num_read = len(read)
    for rank in range(4):
        pipeline = make_pipeline(rank, 4)
        pipeline.load_state_dict(state)
        with pipeline.auto_stop():
            for batch in pipeline:
                read += batch
    is_each_once = sorted(read) == sorted(map(load, range(NUM_ITEMS)))
    print(f"2 ranks read {num_read} samples, 4 ranks {len(read) - num_read}; each once: {is_each_once}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        undisturbed = run(Path(name) / "undisturbed.json")
        path = Path(name) / "checkpoint.json"
        killed = run(path, kill_at=23)
        print(f"killed after {killed[-1]}")
        again = run(path)
        print(again[0])
        print(f"the same model: {again[-1] == undisturbed[-1]}, {len(again) - 2} steps in the second run")
    on_other_ranks()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]), kill_at=int(sys.argv[2]))
    else:
        main()
