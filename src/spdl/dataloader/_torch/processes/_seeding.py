"""Seeds the random generators of workers bit for bit as ``torch.utils.data.DataLoader`` does.

A loader draws one base seed when its workers start; worker ``i`` seeds torch and ``random`` with ``base_seed + i``.
NumPy's global generator is a Mersenne Twister, as is that of ``random``; equal seeds would give both the same state. So
NumPy's ``SeedSequence`` derives its seed from the two numbers.

Source: PyTorch's documentation, "Randomness in multi-process data loading"; M. E. O'Neill, "Developing a seed_seq
Alternative", 2015, which ``numpy.random.SeedSequence`` implements. ``tests/dataloader/test_seeding.py`` compares.
"""

from __future__ import annotations

import random
from typing import Any


def numpy_seed(base_seed: int, worker_id: int) -> Any:
    """Four numbers for ``numpy.random.seed``."""
    from numpy.random import SeedSequence

    return SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4)


def seed_worker(base_seed: int, worker_id: int) -> int:
    """Seed the global generators of torch, ``random`` and NumPy in this process; returns torch's seed."""
    import numpy as np
    import torch

    seed = base_seed + worker_id
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(numpy_seed(base_seed, worker_id))
    return seed
