"""Objects that are pickled once for several processes. Here they arrive in this one."""

import multiprocessing
import os
from multiprocessing import context, reduction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from spdl.dataloader._torch.processes._payload import SharedPayload, UnpicklablePayloadError  # noqa: E402 - it is used with torch only

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX")


class _Process:
    """What ``multiprocessing`` has while it starts a process: descriptors pass, and keep their numbers."""

    def duplicate_for_child(self, fd: int) -> int:
        return os.dup(fd)

    class DupFd:
        def __init__(self, fd: int) -> None:
            self.fd = fd

        def detach(self) -> int:
            return self.fd


def arrive(payload: SharedPayload) -> tuple[Any, ...]:
    context.set_spawning_popen(_Process())  # type: ignore[arg-type]  # it is one for what is asked here
    try:
        make, args = payload.__reduce__()
    finally:
        context.set_spawning_popen(None)
    objects: tuple[Any, ...] = make(*args).open()
    return objects


def send(*objects: Any) -> tuple[Any, ...]:
    payload = SharedPayload({f"part {i}": each for i, each in enumerate(objects)})
    try:
        return arrive(payload)
    finally:
        payload.close()
        payload.close()


def _memory_of(array: Any) -> Any:
    while isinstance(array, np.ndarray | memoryview):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array


@given(
    kinds=st.lists(st.sampled_from(["?", "u1", ">i4", "f2", "f8", "c8", "M8[s]", "S5", "U3", "i1,f8"]), max_size=3),
    shape=st.lists(st.integers(0, 30), max_size=3),
    order=st.sampled_from("CF"),
    seed=st.integers(0, 9),
)
def test_arrays_arrive_as_they_are(kinds: list[str], shape: list[int], order: Any, seed: int) -> None:
    """Dtype, shape, layout and values, whatever their size."""
    numbers = np.random.default_rng(seed).integers(0, 100, shape)
    arrays = [np.array(numbers.astype(kind), order=order) for kind in kinds]
    found, empty = send(arrays, None)
    assert empty is None
    for one, other in zip(found, arrays, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.flags.c_contiguous == other.flags.c_contiguous
        assert one.tobytes() == other.tobytes()


def test_large_memory_is_mapped_and_not_copied() -> None:
    """Arrays and tensors are views of the mapping, small ones and what is no memory are not; each has its rights."""
    array, fixed = np.arange(5_000), np.arange(5_000.0)
    fixed.flags.writeable = False
    tensor = torch.arange(5_000)
    (found,) = send({"array": array, "again": array, "fixed": fixed, "tensor": tensor, "small": np.arange(3)})
    assert type(_memory_of(found["array"])).__name__ == "mmap"
    assert type(_memory_of(found["fixed"])).__name__ == "mmap"
    assert type(_memory_of(found["small"])).__name__ != "mmap"
    assert found["again"] is found["array"]
    assert found["array"].flags.writeable
    assert found["array"].flags.aligned
    assert not found["fixed"].flags.writeable
    assert torch.equal(found["tensor"], tensor)
    assert np.array_equal(found["fixed"], fixed)


def test_who_writes_has_memory_of_its_own() -> None:
    """Neither the sender nor another receiver sees it."""
    array, tensor = np.zeros(5_000), torch.zeros(5_000)
    payload = SharedPayload({"array": array, "tensor": tensor})
    one, other = arrive(payload), arrive(payload)
    payload.close()
    one[0][:] = 1
    one[1][:] = 1
    for each in (array, tensor, *other):
        assert not each.any()


def test_memory_is_shared_by_all() -> None:
    """The file has the buffers once, whatever number of names an array has."""
    array = np.zeros(1 << 20, np.uint8)
    payload = SharedPayload({"dataset": [array, array], "other": array})
    assert 1 << 20 < payload.num_bytes < (1 << 20) + 4096
    payload.close()


def test_what_is_shared_already_stays_shared() -> None:
    """A tensor in shared memory, and what multiprocessing makes, go along as they would without us."""
    shared: Any = torch.zeros(10).share_memory_()
    payload = SharedPayload({"dataset": {"tensor": shared, "connections": multiprocessing.Pipe()}})
    assert payload.num_bytes < 1000
    ours, theirs = payload._apart[1:]
    assert payload._apart[0] is shared
    ours.close()
    theirs.close()
    payload.close()


@pytest.mark.filterwarnings("ignore:.*(nested tensors|[Ss]parse).*:UserWarning")
def test_tensors_of_several_parts_go_by_their_parts() -> None:
    """Of them nobody can say whether they are shared; of each part, one can."""
    shared: Any = torch.zeros(5_000).share_memory_()
    indices = torch.arange(5_000).reshape(1, -1)
    sparse = torch.sparse_coo_tensor(indices, shared, (5_000,), check_invariants=False)
    payload = SharedPayload({"dataset": sparse})
    assert [part.data_ptr() for part in payload._apart] == [shared.data_ptr()]
    payload.close()
    rows = torch.eye(30).to_sparse_csr()
    nested = torch.nested.nested_tensor([torch.ones(2_000), torch.ones(3)])
    found = send([sparse.clone(), rows, nested, torch.ones(3).untyped_storage()])[0]
    assert torch.equal(found[0].to_dense(), sparse.to_dense())
    assert torch.equal(found[1].to_dense(), rows.to_dense())
    assert [len(part) for part in found[2].unbind()] == [2_000, 3]
    assert found[3].nbytes() == 12


@pytest.mark.parametrize("size", [20, 100_000])
def test_views_of_a_storage_stay_together(size: int) -> None:
    """A dataset that has slices of one tensor is not sent once for each of them."""
    base = torch.zeros(size)
    parts = [base, *(base[at:] for at in range(10)), base[:1].expand(size, 1000)]
    with SharedPayload({"parts": parts}) as payload:
        assert payload.num_bytes < 4 * size + 10_000
    (arrived,) = send(parts)
    arrived[5][0] = 3
    assert arrived[0][4] == 3
    assert arrived[-1].stride() == parts[-1].stride()


class Refuses:
    def __reduce__(self) -> Any:
        raise LookupError("not me")


def test_what_does_not_pickle_is_named() -> None:
    """With the reason."""
    with pytest.raises(UnpicklablePayloadError, match=r"^the second cannot be sent .*: not me \(LookupError\)$"):
        SharedPayload({"the first": 1, "the second": [Refuses()]})


def test_payloads_travel_only_with_new_processes() -> None:
    """A descriptor has to go along."""
    payload = SharedPayload({"dataset": 1})
    with pytest.raises(RuntimeError, match="inheritance"):
        reduction.ForkingPickler.dumps(payload)
    payload.close()
