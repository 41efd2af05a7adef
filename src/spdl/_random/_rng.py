"""The random numbers of one item in one stage."""

from __future__ import annotations

import random
import sys
import threading
from typing import TYPE_CHECKING, Any

from spdl._numbers import as_int

from ._seeds import RngKey
from ._splitmix import MASK

if TYPE_CHECKING:
    import numpy as np
    import torch


class Rng:
    """Random numbers for one item in one stage: the same wherever and whenever the op runs for it.

    They depend on the run's seed, the epoch, the item's position in the order of all ranks, and the name of the stage.
    They do not depend on threads, processes, the order of calls, the number of ranks, or on whether the run was
    interrupted. Global generators are neither used nor changed.

    .. code-block:: python

        def augment(image, rng):
            top, left = rng.numpy().integers(0, 32, 2)
            return image[top : top + 224, left : left + 224]

    Generators are created on first use. All start from the same seed, so use only one of them for an item. You may keep
    a generator: it continues its own sequence, and no later item gets it.

    Args:
        seed: In ``[0, 2**64)``.
        key: The values that the seed was computed from; ``None`` if unknown.

    Raises:
        TypeError: The seed is not an integer.
        ValueError: It is out of range.
    """

    __slots__ = ("_key", "_numpy", "_python", "_seed", "_torch")

    def __init__(self, seed: int, key: RngKey | None = None) -> None:
        if type(seed) is not int:  # the usual case costs nothing
            seed = as_int("seed", seed)
        if not 0 <= seed <= MASK:
            raise ValueError(f"seed must be in range [0, 2**64), got {seed}")
        self._seed = seed
        self._key = key
        self._python: random.Random | None = None
        self._numpy: np.random.Generator | None = None
        self._torch: torch.Generator | None = None

    @property
    def seed(self) -> int:
        """A random number in ``[0, 2**64)``, to seed other generators. Different for each item."""
        return self._seed

    @property
    def key(self) -> RngKey | None:
        """What the seed was computed from: the run's seed, the name of the stage, and the place of the item."""
        return self._key

    def python(self) -> random.Random:
        """``random.Random(seed)``: the same object each time."""
        if self._python is None:
            self._python = random.Random(self._seed)
        return self._python

    def numpy(self) -> np.random.Generator:
        """``numpy.random.Generator(numpy.random.Philox(key=seed))``: the same object each time.

        Creating one takes about 20 microseconds, resetting it 2. So each thread keeps one and resets it for the next
        item, unless other code still refers to it or to its bit generator.
        """
        if self._numpy is None:
            self._numpy = _numpy_generator(self._seed)
        return self._numpy

    def torch(self) -> torch.Generator:
        """``torch.Generator().manual_seed(seed)``, for the CPU: the same object each time."""
        if self._torch is None:
            import torch

            self._torch = torch.Generator().manual_seed(self._seed)
        return self._torch

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy starts again with the first number.
        return type(self), (self._seed, self._key)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._seed})" if self._key is None else f"{type(self).__name__}(key={self._key})"
        )


class _Reusable:
    """A NumPy generator that can be reset to the start of the sequence of any seed."""

    __slots__ = ("_bit_generator", "_generator", "_idle", "_key", "_probe", "_state")

    def __init__(self) -> None:
        import numpy as np

        self._bit_generator = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bit_generator)
        # A new key, and everything else as at the start. Setting the state copies the numbers.
        self._state = self._bit_generator.state
        self._key = self._state["state"]["key"]
        # No other code can refer to this object.
        self._probe = object()
        self._idle = self._num_others()

    def _num_others(self) -> int:
        # Compares with the references to the probe, so it does not matter which references the interpreter itself
        # counts. The generator's own references to its bit generator are counted when no other code can have any.
        own = sys.getrefcount(self._probe)
        return sys.getrefcount(self._generator) + sys.getrefcount(self._bit_generator) - 2 * own

    def is_idle(self) -> bool:
        """Whether no other code refers to the generator or to its bit generator."""
        return self._num_others() == self._idle

    def begin(self, seed: int) -> np.random.Generator:
        self._key[0] = seed
        self._bit_generator.state = self._state
        return self._generator


# One per thread, so that items of different threads never share one, and no lock is needed.
_of_thread = threading.local()


def _numpy_generator(seed: int) -> np.random.Generator:
    reusable: _Reusable | None = getattr(_of_thread, "reusable", None)
    if reusable is None or not reusable.is_idle():
        reusable = _of_thread.reusable = _Reusable()
    return reusable.begin(seed)
