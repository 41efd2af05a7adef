"""The random generators of torch that the order of an epoch comes from."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spdl.resume._errors import ResumeError

__all__ = ["Generators"]


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

    def to_json(self) -> dict[str, Any]:
        """States of all generators."""
        import torch

        return {**self.own_to_json(), "global": _to_text(torch.get_rng_state())}

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
        """Set all generators; at the end of the ``with`` block the global one is as it was before.

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
    return base64.b64encode(state.numpy().tobytes()).decode("ascii")


def _from_text(text: str) -> Any:
    import torch

    try:
        return torch.frombuffer(bytearray(base64.b64decode(text, validate=True)), dtype=torch.uint8)
    except (binascii.Error, ValueError, TypeError) as exc:
        raise ResumeError(f"cannot resume: the state of a random generator is damaged ({exc})") from exc
