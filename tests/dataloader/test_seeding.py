"""Seeds of workers, against torch's own."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils.data._utils.worker import _generate_state  # noqa: E402 - it needs torch

from spdl.dataloader._torch.processes._process_main import numpy_seed, seed_worker  # noqa: E402


@given(base_seed=st.integers(0, 2**63 - 1), worker_id=st.integers(0, 10_000))
def test_numpy_is_seeded_as_torch_does_it(base_seed: int, worker_id: int) -> None:
    """By the same four numbers."""
    expected = _generate_state(base_seed, worker_id)  # type: ignore[no-untyped-call]
    assert numpy_seed(base_seed, worker_id).tolist() == expected


def test_all_global_generators_are_seeded() -> None:
    """Those of torch, random and NumPy."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        drawn = []
        for _ in range(2):
            assert seed_worker(2**63 - 1, 3) == 2**63 + 2
            drawn.append((int(torch.randint(1 << 40, ())), random.getrandbits(40), int(np.random.randint(1 << 40))))
        assert drawn[0] == drawn[1]
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])
