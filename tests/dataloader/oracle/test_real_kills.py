"""Scripts that are killed by SIGKILL, and go on from the state in their file, beside runs that nobody kills.

``test_states.py`` has the same in one process, where more can be tried. Here nothing of the run before is left but its
file, which ``torch.save`` has written; and workers, their template and their memory end with their script.
"""

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader as TorchDataLoader

from tests.support.child import run_child
from tests.support.soak import seeds

from .composed import COMPOSED_MAPS, COMPOSED_STREAMS
from .scripts import Case, Death, options_of
from .stateful import MAPS, SAMPLERS, SHUFFLES, STREAMS
from .test_states import KINDS, expected_of

torchdata = pytest.importorskip("torchdata.stateful_dataloader")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::UserWarning:torchdata",
        "ignore:'set_vital' is deprecated:UserWarning",
        "ignore:.*multi-threaded, use of fork:DeprecationWarning",
    ),
]

SCRIPT = """
from tests.dataloader.oracle.scripts import Case, Death, run
import torch

if __name__ == "__main__":
    run({case!r}, {path!r}, {every!r}, {death!r}, {seed!r}, starts_by_fork={fork!r})
"""
#: A run is killed so often at most.
MOST_DEATHS = 4


def judge_of(case: Case) -> Any:
    """Torchdata iterates a sampler once where torch does it twice, and its own draws whenever it is iterated."""
    if case.family == "shuffle" or case.order.startswith("torchdata's"):
        return TorchDataLoader
    return torchdata.StatefulDataLoader


def has_judge(case: Case) -> bool:
    """Whether a peer has the same order, and the samples do not depend on who loads them."""
    if case.workers == "DataLoader":
        return "Global" not in case.dataset
    if case.workers == "kept threads":
        return "Global" not in case.dataset and not (case.family == "shuffle" and case.dataset == "Counting")
    if case.family != "stream" and case.workers in ("process", "kept processes"):
        return case.dataset != "GlobalItems"
    if case.order.startswith("torchdata's"):
        return case.workers in ("process", "kept processes")
    return True


def draw(rng: random.Random) -> Case:
    """Any case of the grid."""
    while True:
        family = rng.choice(["stream", "sampler", "shuffle"])
        if family == "stream":
            dataset, order = rng.choice([*STREAMS, *COMPOSED_STREAMS]), rng.choice(["None", "3", "13"])
        else:
            dataset = rng.choice([*MAPS, *COMPOSED_MAPS])
            order = rng.choice([*(SAMPLERS if family == "sampler" else SHUFFLES)])
        workers = rng.choice([*KINDS, "DataLoader"] if family == "stream" and order != "None" else [*KINDS])
        case = Case(family, dataset, order, workers)
        if has_judge(case):
            return case


def check(case: Case, rng: random.Random, folder: Path, *, fork: bool) -> None:
    expected = expected_of(
        lambda: options_of(case), "inline" if case.workers == "DataLoader" else case.workers, judge_of(case)
    )
    num_batches = sum(map(len, expected))
    path, every = folder / "state.pt", rng.randrange(1, 5)
    for number in range(MOST_DEATHS + 1):
        death = None
        if number < MOST_DEATHS:
            at_batch = rng.randrange(1, max(num_batches // 2, 2))
            death = Death(at_batch, rng.choice(["before", "while", "after", "soon"]))
        script = SCRIPT.format(case=case, path=str(path), every=every, death=death, seed=rng.randrange(1000), fork=fork)
        ended = run_child(script)
        ended.check_no_complaint()
        assert ended.returncode in ((0,) if death is None else (0, -signal.SIGKILL)), ended
        if ended.returncode == 0:
            assert json.loads(ended.stdout) == expected, (case, every, number)
            return


#: Some of each kind of dataset, of order and of worker, without those whose imports take seconds.
FIXED = [
    Case("stream", "InBoth", "3", "process"),
    Case("stream", "InBoth", "3", "DataLoader"),
    Case("stream", "ChainDataset", "3", "thread"),
    Case("sampler", "ConcatDataset", "Shuffled", "inline"),
    Case("shuffle", "Subset", "RandomSampler", "kept processes"),
]


@pytest.mark.parametrize("case", FIXED, ids=", ".join)
def test_a_killed_script_goes_on(case: Case, tmp_path: Path) -> None:
    """Whatever it loads, and however."""
    check(case, random.Random(3), tmp_path, fork=True)


@pytest.mark.soak(only=True)
@pytest.mark.parametrize("seed", seeds(0, 500))
def test_any_killed_script_goes_on(seed: int, tmp_path: Path) -> None:
    """Drawn from the whole grid."""
    rng = random.Random(seed)
    check(draw(rng), rng, tmp_path, fork=rng.random() < 0.7)
