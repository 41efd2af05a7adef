"""``get_pytorch_dataloader`` as code for SPDL 0.8.0 calls it: processes, completion order, failures dropped."""

import inspect
import os
import pickle
import warnings
from typing import Any

import pytest

from spdl import dataloader
from tests.support.timeouts import TIMEOUT

torch: Any = pytest.importorskip("torch")

from tests.support import remote_datasets  # noqa: E402 - it needs torch
from tests.support.remote_datasets import Numbers, Picky, Stream, Weighty, failing_collate, told  # noqa: E402


def make(dataset: Any, *args: Any, **options: Any) -> Any:
    """A loader whose reads do not hang."""
    return dataloader.get_pytorch_dataloader(dataset, *args, **{"timeout": TIMEOUT, **options})


def batches(loader: Any) -> list[list[int]]:
    """In order of their first sample."""
    return sorted(batch.tolist() for batch in loader)


def test_the_signature_is_that_of_the_contract() -> None:
    """Names, order and kinds; positional ones in the order of torch's."""
    parameters = inspect.signature(dataloader.get_pytorch_dataloader).parameters
    positional = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert positional == [
        "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
        "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
    ]  # fmt: skip
    keywords = {name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
    assert keywords == {
        "prefetch_factor", "persistent_workers", "pin_memory_device", "in_order", "worker_init_concurrency", "workers",
        "snapshot_every_n_steps", "stall_action", "stall_timeout", "max_failures", "retry", "call_timeout",
        "on_error",
    }  # fmt: skip


def test_batches_come_from_other_processes() -> None:
    """All of them, once; collated there."""
    loader = make(Numbers(10), batch_size=3, num_workers=2)
    assert isinstance(loader, dataloader.PyTorchDataLoader)
    assert batches(loader) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert batches(loader) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert len(loader) == 4
    pids = {pid for batch in make(Numbers(10), batch_size=3, collate_fn=told) for pid in batch}
    assert os.getpid() not in pids
    assert len(pids) == 1


def test_defaults_are_those_of_the_reference() -> None:
    """Batches of one, one worker, no shuffle."""
    loader = make(Numbers(3))
    assert batches(loader) == [[0], [1], [2]]
    assert len(loader) == 3
    dataset = Numbers(3)
    assert make(dataset).dataset is dataset


def test_order_of_input_if_asked() -> None:
    """``in_order=True`` keeps it whatever takes longer."""
    loader = make(Numbers(40), batch_size=2, num_workers=2, in_order=True)
    assert [batch.tolist() for batch in loader] == [[2 * k, 2 * k + 1] for k in range(20)]


def test_completion_order_lets_the_quick_pass(tmp_path: Any) -> None:
    """The first batch waits until a later one was taken."""
    loader = make(remote_datasets.Waiting(8, tmp_path / "go"), batch_size=1, num_workers=2)
    batches = iter(loader)
    first = next(batches).item()
    assert first != 0
    (tmp_path / "go").write_bytes(b"go")
    assert sorted([first, *(batch.item() for batch in batches)]) == list(range(8))


def test_samples_without_batches_are_converted() -> None:
    """``batch_size=None`` and no batch sampler: torch's ``default_convert``."""
    loader = make(Weighty(4), batch_size=None, in_order=True)
    found = list(loader)
    assert len(loader) == 4
    assert all(isinstance(each["array"], torch.Tensor) for each in found)
    assert [each["index"] for each in found] == [0, 1, 2, 3]


def test_samplers_run_here_and_may_give_anything() -> None:
    """Also one that is empty, which is kept; batch samplers need ``batch_size=None``."""
    assert batches(make(Numbers(9), batch_size=2, sampler=[5, 3, 1], in_order=True)) == [[1], [5, 3]]
    assert batches(make(Numbers(9), batch_size=None, batch_sampler=[[1, 2], [8]])) == [[1, 2], [8]]
    assert len(make(Numbers(9), batch_size=None, batch_sampler=[[1, 2], [8]])) == 2
    empty = make(Numbers(9), sampler=[])
    assert batches(empty) == []
    assert len(empty) == 0
    assert batches(make(Numbers(9), batch_size=None, batch_sampler=[])) == []


def test_shuffling_follows_the_generator() -> None:
    """As torch's ``RandomSampler``."""

    def order(load: Any, **options: Any) -> list[list[int]]:
        loader = load(Numbers(9), 2, True, generator=torch.Generator().manual_seed(4), **options)
        return [batch.tolist() for batch in loader]

    assert sorted(k for batch in order(make) for k in batch) == list(range(9))
    assert order(make, in_order=True) == order(make, in_order=True)


def test_many_at_once_are_asked_at_once() -> None:
    """``__getitems__`` is used if present."""
    assert batches(make(remote_datasets.AtOnce(6), batch_size=3)) == [[300, 301, 302], [303, 304, 305]]


def test_batches_that_fail_are_logged_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Of the dataset and of the function that collates; the loop ends well."""
    assert batches(make(Picky(10, {3}), batch_size=2, num_workers=2)) == [[0, 1], [4, 5], [6, 7], [8, 9]]
    assert "do not want 3" in caplog.text
    assert "1 batch with 2 items was dropped in this epoch" in caplog.text
    caplog.clear()
    found = list(make(Numbers(4), batch_size=2, collate_fn=failing_collate, in_order=True))
    assert found == [[2, 3]]
    assert "not the first" in caplog.text


def test_the_last_batch_is_dropped_if_asked() -> None:
    """And counted so."""
    loader = make(Numbers(10), batch_size=4, drop_last=True)
    assert batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(loader) == 2


def test_no_workers_means_one_and_a_warning() -> None:
    """It is said once, when the loader is made."""
    with pytest.warns(UserWarning, match="num_workers"):
        loader = make(Numbers(4), batch_size=2, num_workers=0)
    assert batches(loader) == [[0, 1], [2, 3]]


def test_workers_end_with_each_iteration() -> None:
    """Each epoch has new ones; the copy of the dataset begins anew."""
    loader = make(Numbers(6), batch_size=3, collate_fn=told)
    pids = [{pid for batch in loader for pid in batch} for _ in range(2)]
    assert pids[0].isdisjoint(pids[1])
    assert all(not os.path.exists(f"/proc/{pid}") for each in pids for pid in each)


def test_break_at_any_moment_leaves_nothing() -> None:
    """The leak check of every test looks after it."""
    loader = make(Numbers(50), batch_size=2, num_workers=2)
    for num_read in (0, 1, 3):
        for _, _batch in zip(range(num_read), loader, strict=False):
            pass
    assert len(batches(loader)) == 25


def test_a_read_that_takes_too_long_is_a_timeout(tmp_path: Any) -> None:
    """``timeout`` counts for each batch."""
    loader = make(remote_datasets.Waiting(1, tmp_path / "go"), timeout=0.2)
    with pytest.raises(TimeoutError):
        list(loader)


def test_the_dataset_is_pickled_once() -> None:
    """Not for each worker, nor for each epoch's samples."""
    dataset = remote_datasets.CountsPickling(6)
    remote_datasets.CountsPickling.num_pickled = 0
    loader = make(dataset, batch_size=1, num_workers=2)
    assert batches(loader) == [[k] for k in range(6)]
    assert remote_datasets.CountsPickling.num_pickled == 1


def test_what_cannot_be_pickled_is_told() -> None:
    """By an ordinary exception that names it, at the latest when it is iterated."""

    class Local(Numbers):
        pass

    with pytest.raises((TypeError, AttributeError, pickle.PicklingError, RuntimeError), match="Local"):
        list(make(Local(3)))


def test_few_may_load_the_dataset_at_once() -> None:
    """It changes nothing but that."""
    assert len(batches(make(Numbers(6), batch_size=2, num_workers=2, worker_init_concurrency=1))) == 3


def test_pinning_is_skipped_without_an_accelerator() -> None:
    """The batches come all the same."""
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert batches(make(Numbers(4), batch_size=2, pin_memory=True)) == [[0, 1], [2, 3]]


REFUSED: dict[str, dict[str, Any]] = {
    "worker_init_fn": {"worker_init_fn": print},
    "pin_memory_device": {"pin_memory_device": "cuda"},
    "persistent_workers": {"persistent_workers": True},
    "negative timeout": {"timeout": -1},
    "negative num_workers": {"num_workers": -1},
    "worker_init_concurrency 0": {"worker_init_concurrency": 0},
    "worker_init_concurrency -1": {"worker_init_concurrency": -1},
    "two samplers": {"sampler": [0], "batch_sampler": [[0]], "batch_size": None},
    "batch_sampler, default batch_size": {"batch_sampler": [[0]]},
    "batch_sampler, batch_size": {"batch_sampler": [[0]], "batch_size": 2},
    "sampler, shuffle": {"sampler": [0], "shuffle": True},
    "batch_sampler, shuffle": {"batch_sampler": [[0]], "batch_size": None, "shuffle": True},
    "batch_sampler, drop_last": {"batch_sampler": [[0]], "batch_size": None, "drop_last": True},
    "no batch_size, drop_last": {"batch_size": None, "drop_last": True},
    "empty sampler, shuffle": {"sampler": [], "shuffle": True},
    "unknown start method": {"multiprocessing_context": "teleport"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_reference_refuses_is_refused(name: str) -> None:
    """When the loader is made."""
    with pytest.raises(ValueError):
        make(Numbers(4), **REFUSED[name])


def test_iterable_datasets_are_refused() -> None:
    """The message says what takes them."""
    with pytest.raises(ValueError, match="process"):
        make(Stream())


@pytest.mark.parametrize("name", ["worker_init_fn", "persistent_workers"])
def test_what_only_the_other_ways_take_says_so(name: str) -> None:
    """The user learns which argument to add."""
    with pytest.raises(ValueError, match="workers="):
        make(Numbers(4), **REFUSED[name])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_start_methods_by_name(method: str) -> None:
    """And the batches are the same."""
    assert batches(make(Numbers(4), batch_size=2, multiprocessing_context=method)) == [[0, 1], [2, 3]]
