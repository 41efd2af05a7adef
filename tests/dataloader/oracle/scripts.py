"""A training script that saves its state beside its results: ``test_real_kills.py`` kills it, and starts it again."""

import json
import os
import random
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .composed import COMPOSED_MAPS, COMPOSED_STREAMS
from .stateful import MAPS, SAMPLERS, SHUFFLES, STREAMS
from .test_states import EPOCHS, SEED, drop_in, of_pipelines, plain

__all__ = ["Case", "Death", "options_of", "run"]


class Case(NamedTuple):
    """What is loaded, and how."""

    family: str  # "stream", "sampler" or "shuffle"
    dataset: str
    order: str  # of the samplers, or the size of batches of a stream
    workers: str  # a kind of workers, or "DataLoader"


class Death(NamedTuple):
    """When a run is killed."""

    at_batch: int
    moment: str  # "before" the state is saved, "while" it is written, "after" it, or "soon": by a timer


def options_of(case: Case) -> dict[str, Any]:
    """The options of the loader of one run."""
    if case.family == "stream":
        size = None if case.order == "None" else int(case.order)
        return {"dataset": {**STREAMS, **COMPOSED_STREAMS}[case.dataset](), "batch_size": size}
    orders = SAMPLERS if case.family == "sampler" else SHUFFLES
    return {"dataset": {**MAPS, **COMPOSED_MAPS}[case.dataset](), **orders[case.order]()}


def run(case: Case, path: str, every: int, death: Death | None, seed: int, *, starts_by_fork: bool) -> None:
    """Train for some epochs, and print their batches; or die."""
    warnings.simplefilter("ignore")
    torch.manual_seed(SEED)
    make, kind = (of_pipelines, "inline") if case.workers == "DataLoader" else (drop_in, case.workers)
    more: dict[str, Any] = {}
    if "process" in kind and starts_by_fork:
        more["multiprocessing_context"] = "fork"  # no new interpreter has to import torch
    loader = make(lambda: {**options_of(case), **more}, kind, random.Random(seed))
    epochs: list[list[Any]] = [[]]
    if Path(path).exists():
        saved = torch.load(path, weights_only=True)
        loader.load_state_dict(saved["loader"])
        epochs = json.loads(saved["epochs"])
    num_batches = 0

    def die(moment: str) -> None:
        if death is not None and num_batches == death.at_batch and moment == death.moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def save() -> None:
        die("before")
        torch.save({"loader": loader.state_dict(), "epochs": json.dumps(epochs)}, f"{path}.new")
        die("while")
        os.replace(f"{path}.new", path)
        die("after")

    while len(epochs) <= EPOCHS:
        for batch in loader:
            epochs[-1].append(plain(batch))
            num_batches += 1
            if num_batches % every == 0:
                save()
            if death is not None and num_batches == death.at_batch:
                if death.moment == "soon":
                    threading.Timer(0.002 * (seed % 5), os.kill, (os.getpid(), signal.SIGKILL)).start()
                elif num_batches % every:
                    die(death.moment)
        epochs.append([])
        if num_batches % 2:
            save()
    sys.stdout.write(json.dumps(epochs[:EPOCHS]))
