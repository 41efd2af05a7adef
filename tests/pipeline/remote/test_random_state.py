"""``_run_pipeline_main``: what is drawn there is what would have been drawn here."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spdl.pipeline._remote import _run_pipeline_main
from spdl.pipeline._remote._run_pipeline_main import capture, restore
from tests.support.child import run_child


@pytest.fixture
def kept() -> Iterator[None]:
    """Leaves the generators and finders of this process as they were."""
    state, finders = random.getstate(), list(sys.meta_path)
    yield
    random.setstate(state)
    sys.meta_path[:] = finders


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: None) -> str:
    """Name of a module with a state, which is not imported yet."""
    name = "module_with_a_state_of_its_own"
    (tmp_path / f"{name}.py").write_text("state = 'its own'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_run_pipeline_main, "_OTHERS", {name: (_get_fake, _put_fake)})
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def _get_fake(module: Any) -> bytes:
    return str(module.state).encode()


def _put_fake(module: Any, state: bytes) -> None:
    module.state = state.decode()


def test_capturing_changes_nothing(kept: None) -> None:
    """What is drawn after is what would have been drawn without."""
    random.seed(1)
    capture()
    assert random.random() == random.Random(1).random()


def test_random_goes_on_from_where_it_was(kept: None) -> None:
    """Not from its seed: half of a pair of Gaussian numbers is state too."""
    random.seed(2)
    random.gauss(0, 1)
    state = capture()
    expected = [random.gauss(0, 1), random.random()]
    random.seed(3)
    restore(state)
    assert [random.gauss(0, 1), random.random()] == expected


def test_numpy_goes_on_from_where_it_was(kept: None) -> None:
    """The legacy functions."""
    np = pytest.importorskip("numpy")
    before = np.random.get_state()
    try:
        np.random.seed(4)
        np.random.normal()
        state = capture()
        expected = [np.random.normal(), np.random.random_sample()]
        np.random.seed(5)
        restore(state)
        assert [np.random.normal(), np.random.random_sample()] == expected
    finally:
        np.random.set_state(before)


def test_a_state_is_set_when_its_module_is_imported(fake: str) -> None:
    """And the module is none the wiser: its loader is its own."""
    restore({"random": random.getstate(), fake: b"taken along"})
    assert fake not in sys.modules
    module = __import__(fake)
    assert module.state == "taken along"
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__


def test_a_state_is_set_once(fake: str) -> None:
    """A module that is imported anew is left alone."""
    restore({"random": random.getstate(), fake: b"taken along"})
    __import__(fake)
    del sys.modules[fake]
    assert __import__(fake).state == "its own"


def test_a_state_is_set_at_once_in_a_module_that_is_imported(fake: str) -> None:
    """No finder is left behind."""
    finders = list(sys.meta_path)
    module = __import__(fake)
    restore({"random": random.getstate(), fake: b"taken along"})
    assert module.state == "taken along"
    assert sys.meta_path == finders


def test_what_is_not_imported_is_not_captured(fake: str) -> None:
    """Neither is it imported for that."""
    assert set(capture()) == {"random"}
    __import__(fake)
    assert set(capture()) == {"random", fake}


def test_a_module_in_the_middle_of_its_import_is_not_captured(fake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be at it; half of it is there."""
    half = ModuleType(fake)
    half.__spec__ = type("Spec", (), {"_initializing": True})()
    monkeypatch.setitem(sys.modules, fake, half)
    assert set(capture()) == {"random"}


@pytest.mark.slow
def test_state_crosses_to_a_process_that_imports_later() -> None:
    """NumPy and torch as they are: neither is imported by the restoring, and both draw as here."""
    pytest.importorskip("numpy")
    pytest.importorskip("torch")
    run_child(
        """
        import multiprocessing, sys
        from spdl.pipeline._remote._run_pipeline_main import capture, restore

        def draw(state, answers):
            restore(state)
            names = [name for name in ("numpy", "torch") if name in sys.modules]
            import numpy, torch
            answers.put((names, numpy.random.random_sample(), torch.rand(()).item()))

        if __name__ == "__main__":
            import numpy, torch
            numpy.random.seed(6)
            torch.manual_seed(7)
            context = multiprocessing.get_context("spawn")
            answers = context.SimpleQueue()
            child = context.Process(target=draw, args=(capture(), answers))
            child.start()
            names, *drawn = answers.get()
            child.join()
            answers.close()
            print(names, drawn == [numpy.random.random_sample(), torch.rand(()).item()])
        """
    ).check("[] True")
