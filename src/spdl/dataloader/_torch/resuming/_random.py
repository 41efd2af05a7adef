"""The random generators of torch that determine the order of an epoch: capture and restore their states."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from spdl.resume._values import ResumeError


class CapturedStates:
    """States of generators at some moment. Converted to text on first use."""

    def __init__(self, own: list[Any], shared: Any) -> None:
        self._tensors: tuple[list[Any], Any] | None = (own, shared)
        self._json: dict[str, Any] = {}

    @classmethod
    def from_json(cls, states: dict[str, Any]) -> CapturedStates:
        """The states of a document."""
        captured = cls([], None)
        captured._tensors, captured._json = None, states
        return captured

    def to_json(self) -> dict[str, Any]:
        """The states for a document; read-only."""
        if self._tensors is not None:
            own, shared = self._tensors
            self._json = {"own": [_to_text(each) for each in own], "global": _to_text(shared)}
            self._tensors = None
        return self._json


class Generators:
    """torch's global generator of the CPU, and those given to the loader or its samplers.

    Args:
        own: Generators of the loader and its samplers, each once.
    """

    def __init__(self, own: list[Any]) -> None:
        self._own = own

    @classmethod
    def of(cls, loader: Any) -> Generators:
        own: list[Any] = []
        samplers = loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)
        for holder in (loader, *samplers):
            generator = getattr(holder, "generator", None)
            if callable(getattr(generator, "get_state", None)) and not any(generator is each for each in own):
                own.append(generator)
        return cls(own)

    def capture(self) -> CapturedStates:
        """The states of all generators now."""
        import torch

        return CapturedStates([generator.get_state() for generator in self._own], torch.get_rng_state())

    def load_own(self, states: dict[str, Any]) -> None:
        """Set the loader's own generators.

        Raises:
            ResumeError: The loader had another number of them, or the states are damaged.
        """
        texts = states["own"]
        if len(texts) != len(self._own):
            raise ResumeError(
                f"cannot resume: the state has {len(texts)} random generators of the loader and its samplers, and this "
                f"loader has {len(self._own)}"
            )
        tensors = [from_text(text) for text in texts]
        for generator, tensor in zip(self._own, tensors, strict=True):
            generator.set_state(tensor)

    @contextmanager
    def loaded(self, states: dict[str, Any]) -> Iterator[None]:
        """Set all generators; if the ``with`` block fails, the global one is restored.

        Raises:
            ResumeError: As for ``load_own``.
        """
        import torch

        state = from_text(states["global"])
        before = torch.get_rng_state()
        self.load_own(states)
        torch.set_rng_state(state)
        try:
            yield
        except BaseException:
            torch.set_rng_state(before)
            raise


class GlobalState:
    """torch's global generator as it was when a state was saved, for a run that continues from there.

    The order of later epochs, and what the training draws itself, are those of the uninterrupted run only if the
    generator continues too. It is left alone if the user has seeded it since the state was loaded, as for each epoch,
    or if another loader has begun an epoch since, so that the run has already gone on.

    Args:
        state: Its state; ``None``: not known.
        num_begun: Number of epochs that loaders of this process had begun.
        is_own: Whether it was saved by the same rank.
    """

    def __init__(self, state: Any, num_begun: int, *, is_own: bool) -> None:
        import torch

        self._state = state
        self._is_own = is_own
        self._seed = torch.initial_seed()
        self._num_begun = num_begun

    def now(self, num_begun: int) -> Any:
        """The state to continue with: the saved one or the current one; ``None``: it was not saved."""
        import torch

        if not self._is_own or num_begun != self._num_begun or self._was_seeded():
            return torch.get_rng_state()
        return self._state

    def _was_seeded(self) -> bool:
        """Whether the user has seeded the generator since, with another seed than the saved run had by then."""
        import torch

        if self._state is None:
            return False
        own = torch.Generator()
        own.set_state(self._state)
        return torch.initial_seed() not in (self._seed, own.initial_seed())


class Arrival:
    """Sets torch's global generator once a resumed epoch has drawn as many index batches as the saved one had.

    Until then it draws again what was drawn before the state was saved; afterwards it draws what follows.

    Args:
        num_drawn: That number.
        state: State of the generator at that time; ``None``: the one that the draws lead to.
    """

    def __init__(self, num_drawn: int, state: Any) -> None:
        self.num_drawn = num_drawn
        self._state = state

    def reach(self, num_drawn: int) -> None:
        """Note that ``num_drawn`` index batches were drawn."""
        if self._state is not None and num_drawn >= self.num_drawn:
            set_global(self._state)
            self._state = None


def set_global(state: Any) -> None:
    """Set torch's global generator."""
    import torch

    torch.set_rng_state(state)


@contextmanager
def global_kept() -> Iterator[None]:
    """Put torch's global generator back after the ``with`` block."""
    import torch

    before = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(before)


def depends_on_global(record: Callable[[], object]) -> bool:
    """Whether the result of a function depends on the state of torch's global generator, which is kept."""
    import torch

    with global_kept():
        recorded = record()
        torch.set_rng_state(torch.Generator().manual_seed(torch.initial_seed() ^ 1).get_state())
        return record() != recorded


# The state of a Mersenne Twister keeps words of 32 bits in 64; torch/csrc, ``CPUGeneratorImplStateLegacy``.
_SIZE: Final = 5056
_WORDS: Final = slice(24, 24 + 624 * 8)
_HALVED: Final = "32:"


def check_states(states: Any, *, needs_global: bool) -> None:
    """Check the states of a document.

    Args:
        states: What the document has in their place.
        needs_global: Whether the state of the global generator must be there: earlier versions did not always save it.

    Raises:
        ResumeError: They are damaged.
    """
    if not isinstance(states, dict) or not isinstance(states.get("own"), list):
        raise ResumeError("cannot resume: the states of the random generators are missing")
    for text in states["own"]:
        from_text(text)
    if needs_global or states.get("global") is not None:
        from_text(states.get("global"))


def _to_text(state: Any) -> str:
    return _text_of(state.numpy().tobytes())


@lru_cache(maxsize=4)  # the global generator is rarely drawn from between two states
def _text_of(state: bytes) -> str:
    import numpy as np

    every = np.frombuffer(state, np.uint8)
    if len(every) == _SIZE and not (words := every[_WORDS].reshape(-1, 8))[:, 4:].any():
        parts = every[: _WORDS.start].tobytes(), words[:, :4].tobytes(), every[_WORDS.stop :].tobytes()
        return _HALVED + base64.b64encode(b"".join(parts)).decode("ascii")
    return base64.b64encode(zlib.compress(state, 1)).decode("ascii")


def from_text(text: Any) -> Any:
    """The state of a generator.

    Raises:
        ResumeError: The text is damaged.
    """
    import numpy as np
    import torch

    if not isinstance(text, str):
        raise ResumeError(f"cannot resume: the state of a random generator is damaged (it is {type(text).__name__})")
    try:
        halved = text.removeprefix(_HALVED)
        state = base64.b64decode(halved, validate=True)
        if halved == text:
            state = zlib.decompress(state)
        else:
            stop = _WORDS.start + 624 * 4
            words = np.frombuffer(state[_WORDS.start : stop], np.uint32).astype(np.uint64).tobytes()
            state = state[: _WORDS.start] + words + state[stop:]
        tensor = torch.frombuffer(bytearray(state), dtype=torch.uint8)
        torch.Generator().set_state(tensor)
    except (binascii.Error, zlib.error, ValueError, TypeError, RuntimeError) as exc:
        raise ResumeError(f"cannot resume: the state of a random generator is damaged ({exc})") from exc
    return tensor
