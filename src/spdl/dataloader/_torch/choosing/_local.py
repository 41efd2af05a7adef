"""What the consumer's thread draws and loads itself, for the measurement and while workers start."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from spdl.dataloader._torch._arguments import Plan
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


class Drawn(NamedTuple):
    """One index batch. Wrapped, because it may be ``None``."""

    indices: Any


class ResumedIndices:
    """A sampler whose first index batches were already drawn. After ``end_epoch`` it acts as the sampler."""

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        self._indices = iter(sampler)
        self._error: BaseException | None = None
        self._is_begun = True

    def begin_again(self) -> None:
        """Make another iterator, as torch does after it has drawn the base seed."""
        self._indices = iter(self._sampler)

    def draw(self) -> Drawn | None:
        """The next index batch; ``None`` at the end, or after an error, which ``__next__`` then raises."""
        if self._error is not None:
            return None
        try:
            return Drawn(next(self._indices))
        except StopIteration:
            return None
        except BaseException as exc:  # noqa: BLE001 - of the sampler; raised after the batches before it
            self._error = exc
            return None

    def end_epoch(self) -> None:
        """Make ``iter`` begin a new epoch of the sampler from now on."""
        self._is_begun = False

    def __iter__(self) -> Iterator[Any]:
        return self if self._is_begun else iter(self._sampler)

    def __next__(self) -> Any:
        if self._error is not None:
            raise self._error
        return next(self._indices)

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]
