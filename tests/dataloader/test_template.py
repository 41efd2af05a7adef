"""Workers forked from a process that has imported their modules, and clean all the same.

It is started once, for all of these tests and more.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spdl._processes import _template  # noqa: E402
from spdl._processes._transport._connection import wait_readable  # noqa: E402
from spdl.dataloader._torch.processes._processes import ProcessRun  # noqa: E402 - they need torch
from tests.support.child import run_child  # noqa: E402

from .process_datasets import plan_of  # noqa: E402
from .template_datasets import Telling, as_is  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="templates are for Linux")


@pytest.fixture
def _clean() -> Iterator[None]:
    """The template of the tests before is ended, and that of this test too."""
    _template._Kept.template = None
    yield
    _template._Kept.template = None


def epoch_of(dataset: Any, **options: Any) -> list[Any]:
    plan = plan_of(
        dataset,
        None,
        indices=range(4),
        num_workers=2,
        collate_fn=as_is,
        multiprocessing_context="forkserver",
        **options,
    )
    return list(ProcessRun(plan).iterate())


def test_workers_find_modules_imported_and_untouched() -> None:
    """Each epoch has workers of its own; the modules were imported once, elsewhere, and nobody has used them since."""
    epochs = [epoch_of(Telling()) for _ in range(3)]
    samples = [sample for epoch in epochs for sample in epoch]
    assert len({sample["pid"] for sample in samples}) == 6
    (home,) = {sample["imported in"] for sample in samples}
    assert home not in {os.getpid(), *(sample["pid"] for sample in samples)}
    for epoch in epochs:
        assert [sample["seen"] for sample in epoch] == [[0], [1], [0, 2], [1, 3]]


def test_a_worker_does_not_show_that_it_was_forked() -> None:
    """Its parent, its name and the start method are what a process of the fork server has."""
    for sample in epoch_of(Telling()):
        assert sample["parent"] == os.getpid()
        assert sample["name"] == f"spdl-loader-{sample['name'].split('-')[2]}-{sample['index'] % 2}"
        assert sample["method"] == "forkserver"
        assert sample["daemon"] is True


def test_workers_have_no_descriptors_of_each_other() -> None:
    """What one holds of another would hide its death; and they do not grow from epoch to epoch."""
    numbers = [len(sample["descriptors"]) for _ in range(3) for sample in epoch_of(Telling())]
    assert len(set(numbers)) == 1


@pytest.mark.usefixtures("_clean")
def test_a_template_that_died_is_replaced() -> None:
    """The next epoch has workers like those before; those that it had forked go on."""
    plan = plan_of(
        Telling(), None, indices=range(4), num_workers=2, collate_fn=as_is, multiprocessing_context="forkserver"
    )
    batches = ProcessRun(plan).iterate()
    first = next(batches)
    template = _template._Kept.template
    assert template is not None
    assert template.child.pid == first["imported in"]
    os.kill(template.child.pid, signal.SIGKILL)
    assert template.child._pidfd is not None
    assert wait_readable([template.child._pidfd], 20)
    assert [sample["index"] for sample in batches] == [1, 2, 3]
    home = {sample["imported in"] for sample in epoch_of(Telling())}
    assert len(home) == 1
    assert first["imported in"] not in home


@pytest.mark.usefixtures("_clean")
def test_a_changed_module_is_imported_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when each worker imports it."""
    module = tmp_path / "changing_dataset.py"
    text = "class Data:\n    def __len__(self): return 4\n    def __getitem__(self, index): return {}\n"
    module.write_text(text.format(1))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import changing_dataset  # type: ignore[import-not-found]

    try:
        assert epoch_of(changing_dataset.Data()) == [1] * 4
        module.write_text(text.format(20))
        os.utime(module, (1e9, 1e9))
        assert epoch_of(changing_dataset.Data()) == [20] * 4
    finally:
        del sys.modules["changing_dataset"]


@pytest.mark.usefixtures("_clean")
def test_a_module_that_runs_threads_is_imported_by_each_worker() -> None:
    """A fork would not have them."""
    from . import threaded_dataset

    threaded_dataset.gate.set()
    threaded_dataset.thread.join()
    samples = epoch_of(threaded_dataset.Telling())
    assert all(sample["imported in"] == sample["pid"] for sample in samples)
    assert _template._Kept.template is None
    assert len({sample["imported in"] for sample in epoch_of(Telling())}) == 1


@pytest.mark.slow
def test_the_template_ends_with_the_process_and_shows_nowhere() -> None:
    """It is no child of multiprocessing's; a fork has one of its own."""
    ended = run_child("""
import multiprocessing, os
from tests.dataloader.test_template import Telling, _template, epoch_of

if __name__ == "__main__":
    home = epoch_of(Telling())[0]["imported in"]
    print(home, *multiprocessing.active_children())
    child = os.fork()
    if not child:
        os._exit(7 if _template._Kept.template is None else 8)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(epoch_of(Telling())[0]["imported in"] == home)  # what the fork did has not ended it
""")
    home, *rest = ended.stdout.split()
    assert (ended.returncode, rest, ended.stderr) == (0, ["7", "True"], ""), ended
    assert not Path(f"/proc/{home}").exists()
