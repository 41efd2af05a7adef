"""The random generators of torch that determine the order of an epoch: capture and restore their states."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spdl.resume._errors import ResumeError

__all__ = ["CapturedStates", "Generators"]


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

    def own_to_json(self) -> dict[str, Any]:
        """States of the loader's own generators."""
        return {"own": [_to_text(generator.get_state()) for generator in self._own]}

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
        tensors = [_from_text(text) for text in texts]
        for generator, tensor in zip(self._own, tensors, strict=True):
            generator.set_state(tensor)

    @contextmanager
    def loaded(self, states: dict[str, Any]) -> Iterator[None]:
        """Set all generators; the end of the ``with`` block restores the global one.

        Raises:
            ResumeError: As for ``load_own``.
        """
        import torch

        state = _from_text(states["global"])
        before = torch.get_rng_state()
        self.load_own(states)
        torch.set_rng_state(state)
        try:
            yield
        finally:
            torch.set_rng_state(before)


def _to_text(state: Any) -> str:
    # Half of the bytes are zero: torch keeps words of 32 bits in 64.
    return base64.b64encode(zlib.compress(state.numpy().tobytes(), 1)).decode("ascii")


def _from_text(text: str) -> Any:
    import torch

    try:
        state = zlib.decompress(base64.b64decode(text, validate=True))
        return torch.frombuffer(bytearray(state), dtype=torch.uint8)
    except (binascii.Error, zlib.error, ValueError, TypeError) as exc:
        raise ResumeError(f"cannot resume: the state of a random generator is damaged ({exc})") from exc
