"""``LocalLoader``: load batches in the consumer's thread, for the measurement and while workers start."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from spdl.dataloader._torch._plan import Plan
from spdl.dataloader._torch._thread_bound import copy_of
from spdl.dataloader._torch.processes._process_main import seed_worker
from spdl.dataloader._torch.threads._pieces import Outcome, Piece, PieceLoader


class LocalLoader:
    """Loads batches as a worker process with the number ``num_workers`` would.

    Samples draw the random numbers of that worker; the generators of this process are not changed. Samples come from a
    copy of the dataset without its data, so that files it opens on first use, itself or in a part of it, are not in the
    dataset that may be sent to worker processes.

    Args:
        plan: Plan with a map-style dataset.
        base_seed: Base seed of the epoch.
    """

    def __init__(self, plan: Plan, base_seed: int) -> None:
        self._original = plan.dataset
        self.plan = plan
        self.renew()
        own = _states()
        seed_worker(base_seed, plan.num_workers)
        self._kept = _states()
        _set(own)

    def renew(self) -> None:
        """Use another copy of the dataset: what was opened by the last one may belong to a thread that has ended."""
        self.plan = replace(self.plan, dataset=copy_of(self._original))

    def load(self, indices: Any, number: int) -> Outcome:
        """Load batch ``number``."""
        with self.generators():
            outcome = PieceLoader(self.plan)(Piece(indices, number))
        assert outcome is not None
        return outcome

    @contextmanager
    def generators(self) -> Iterator[None]:
        """Use the worker's random generators in a ``with`` block. Each block continues where the last one stopped."""
        own = _states()
        _set(self._kept)
        try:
            yield
        finally:
            self._kept = _states()
            _set(own)


def _states() -> tuple[Any, Any, Any]:
    import numpy as np
    import torch

    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def _set(states: tuple[Any, Any, Any]) -> None:
    import numpy as np
    import torch

    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
