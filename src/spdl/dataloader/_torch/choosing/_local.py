"""``LocalLoader``: batches that the consumer's own thread loads before workers do, or while they start."""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from spdl.dataloader._torch._plan import Plan
from spdl.dataloader._torch.processes._seeding import seed_worker
from spdl.dataloader._torch.threads._pieces import Outcome, Piece, PieceLoader

__all__ = ["LocalLoader"]


class LocalLoader:
    """Loads as a worker process with the number ``num_workers`` would.

    Random numbers that samples draw are that worker's; the generators of this process are left as they were. Samples
    come from a shallow copy of the dataset, so that what it opens on first use is not in the one that worker processes
    may have to be sent.

    Args:
        plan: Of a map-style dataset.
        base_seed: Of the epoch.
    """

    def __init__(self, plan: Plan, base_seed: int) -> None:
        dataset = plan.dataset
        if not isinstance(dataset, list | tuple | dict):  # they open nothing, and may be long
            with suppress(Exception):  # its __copy__, __reduce__ or __getstate__ are the user's
                dataset = copy.copy(dataset)
        self.plan = replace(plan, dataset=dataset)
        own = _states()
        seed_worker(base_seed, plan.num_workers)
        self._kept = _states()
        _set(own)

    def load(self, indices: Any, number: int) -> Outcome:
        """Load batch ``number``."""
        with self.generators():
            outcome = PieceLoader(self.plan)(Piece(indices, number))
        assert outcome is not None
        return outcome

    @contextmanager
    def generators(self) -> Iterator[None]:
        """The worker's random generators for a while; what is drawn goes on where the last one stopped."""
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
