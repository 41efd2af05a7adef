"""Two ranks that save the state of their loaders with torch's distributed checkpoint, then three that load it.

The ranks are forks of one process, which imports torch once.
"""

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["SIZE"]

SIZE = 36


def main(folder: str) -> None:
    import_module("torch.distributed.checkpoint")  # before the forks

    for world, num_steps in ((2, 3), (3, 100)):
        ranks = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    be_rank(rank, world, folder, num_steps)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                    raise
                finally:
                    os._exit(status)
            ranks.append(pid)
        for pid in ranks:
            if os.waitpid(pid, 0)[1]:
                sys.exit(1)


def be_rank(rank: int, world: int, folder: str, num_steps: int) -> None:
    """Go on from the checkpoint if there is one; print the indices of some steps; save."""
    import torch

    from spdl import resume
    from spdl.dataloader import get_pytorch_dataloader
    from spdl.source import DistributedKeyedSampler

    dist: Any = import_module("torch.distributed")
    dcp: Any = import_module("torch.distributed.checkpoint")
    store = dist.FileStore(f"{folder}/store-{world}", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    sampler = DistributedKeyedSampler(SIZE, rank=rank, world_size=world, seed=2)
    loader: Any = get_pytorch_dataloader(
        list(range(SIZE)), 2, sampler=sampler, workers="thread", num_workers=0, collate_fn=list
    )
    saved = Path(folder, "checkpoint")
    state: dict[str, Any] = {"model": torch.zeros(3), "data": resume.gather(loader.state_dict())}
    if saved.exists():
        dcp.load(state, checkpoint_id=saved)
        assert state["model"].tolist() == [1, 1, 1]
        loader.load_state_dict(state["data"])
    batches = iter(loader)
    taken = [index for _, batch in zip(range(num_steps), batches, strict=False) for index in batch]
    if not saved.exists():
        dcp.save({"model": torch.ones(3), "data": resume.gather(loader.state_dict())}, checkpoint_id=saved)
    os.write(1, json.dumps([world, taken]).encode() + b"\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
