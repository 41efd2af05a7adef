"""Our loaders in a loop of one's own with Accelerate."""

from collections.abc import Callable
from typing import Any

import pytest

from .sampling import NUM_BATCHES, order

pytestmark = pytest.mark.slow  # the import of Accelerate takes a second, once

Make = Callable[..., Any]


def test_prepared_loader_has_each_epoch(make_loader: Make, in_accelerate: Any) -> None:
    """Every sample once an epoch, in the order that the sampler has for it."""
    with in_accelerate.accelerator() as accelerator:
        assert in_accelerate.train(accelerator, make_loader(), 3) == [order(epoch) for epoch in range(3)]


def test_prepare_leaves_the_loader(make_loader: Make, in_accelerate: Any) -> None:
    """Accelerate wraps torch's own class alone: what comes back is the loader itself, with its ``len`` and all."""
    loader = make_loader()
    with in_accelerate.accelerator() as accelerator:
        prepared = accelerator.prepare(loader)
    assert prepared is loader
    assert len(prepared) == NUM_BATCHES


def test_break_within_an_epoch(make_loader: Make, in_accelerate: Any) -> None:
    """A loop that is left early can be entered again, and leaves nothing running."""
    with in_accelerate.accelerator() as accelerator:
        loader = accelerator.prepare(make_loader())
        for batch in loader:
            first = batch["index"].tolist()
            break
        assert first == order(0)[: len(first)]
        assert [index for batch in loader for index in batch["index"].tolist()] == order(0)
