"""Copies the global random state of one process to another.

It covers ``random``, NumPy's legacy functions and torch on the CPU, the last two if they are imported. A module that
the other process has not imported is not imported for this: torch costs seconds and memory, and many loaders never use
it. If the other process imports the module later, its state is set at the end of the import.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

#: Result of ``capture``: opaque values that pickle, by the name of their module.
RandomState = dict[str, Any]


def capture() -> RandomState:
    """Return the current state of this process, without changing it."""
    state: RandomState = {"random": random.getstate()}
    for name, (get, _) in _OTHERS.items():
        module = sys.modules.get(name)
        # A module that another thread is still importing has no state that was set by the user.
        if module is not None and not _is_being_imported(module):
            state[name] = get(module)
    return state


def restore(state: RandomState) -> None:
    """Set the state in this process; for modules that are not yet imported, when they are imported."""
    random.setstate(state["random"])
    later: dict[str, Any] = {}
    for name, (_, put) in _OTHERS.items():
        if name not in state:
            continue
        module = sys.modules.get(name)
        if module is None:
            later[name] = state[name]
        else:
            put(module, state[name])
    if later:
        sys.meta_path.insert(0, _OnImport(later))


# As plain bytes: unpickling arrays and tensors would import their modules in the other process.


def _get_numpy(numpy_random: Any) -> bytes:
    return pickle.dumps(numpy_random.get_state(legacy=False), 5)


def _put_numpy(numpy_random: Any, state: bytes) -> None:
    values = pickle.loads(state)
    kind = values["bit_generator"]
    if kind != numpy_random.get_state(legacy=False)["bit_generator"]:
        numpy_random.set_bit_generator(getattr(numpy_random, kind)())
    numpy_random.set_state(values)


def _get_torch(torch: Any) -> bytes:
    return bytes(torch.get_rng_state().tolist())


def _put_torch(torch: Any, state: bytes) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


_OTHERS: Final[dict[str, tuple[Callable[[Any], bytes], Callable[[Any, bytes], None]]]] = {
    "numpy.random": (_get_numpy, _put_numpy),
    "torch": (_get_torch, _put_torch),
}


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


# The base classes of finders and loaders are in importlib.abc, whose import takes as long as that of the engine.


class _OnImport:
    """An import hook that finds no modules itself. It sets the state of a module at the end of its import."""

    def __init__(self, state: RandomState) -> None:
        self._state = state

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._state:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    restoring: Any = _Restoring(spec.loader, fullname, self._state)
                    spec.loader = restoring
                return spec
        return None


class _Restoring:
    """A loader that calls another loader, and then sets the state of the module."""

    def __init__(self, loader: Any, name: str, state: RandomState) -> None:
        self._loader = loader
        self._name = name
        self._state = state

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader  # code that looks for the module's data files needs the real loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        state = self._state.pop(self._name, None)
        if state is not None:
            _OTHERS[self._name][1](module, state)
