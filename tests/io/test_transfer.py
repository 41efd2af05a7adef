"""Transfers of tensors and buffers: what can be told without a GPU."""

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io._devices import _transfer
from tests.support.fake_cuda import FakeTorch

torch = pytest.importorskip("torch")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """A CUDA that writes down what it is asked for, in a thread that has transferred nothing yet."""
    fake = FakeTorch()
    monkeypatch.setattr(_transfer, "get_torch", lambda: fake)
    monkeypatch.setattr(_transfer, "local_device", lambda action: torch.device("meta", 0))
    monkeypatch.setattr(_transfer, "_PER_THREAD", _transfer._PerThread())
    return fake


@without_gpu
@pytest.mark.parametrize("rank", ["0", "7", None])
def test_without_a_gpu_the_error_says_what_is_missing(rank: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``RuntimeError``, with the device, and where its number is from."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    with pytest.raises(spdl.io.DeviceError, match=f"cuda:{rank or 0}") as caught:
        spdl.io.transfer_tensor_h2d([torch.ones(2)])
    assert ("LOCAL_RANK" in str(caught.value)) == (rank is not None)
    assert isinstance(caught.value, RuntimeError)


def test_a_rank_that_is_no_number_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is asked of CUDA."""
    monkeypatch.setenv("LOCAL_RANK", "first")
    with pytest.raises(ValueError, match=r"LOCAL_RANK must be an integer.*'first'"):
        spdl.io.transfer_tensor_h2d(torch.ones(2))


@without_gpu
def test_a_negative_rank_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not count from the end."""
    monkeypatch.setenv("LOCAL_RANK", "-1")
    with pytest.raises(spdl.io.DeviceError, match="cuda:-1"):
        spdl.io.transfer_tensor_h2d(torch.ones(2))


def test_keeping_less_than_nothing_is_refused() -> None:
    """Before CUDA is looked for."""
    with pytest.raises(ValueError, match="num_caches"):
        spdl.io.transfer_tensor_h2d(torch.ones(2), num_caches=-1)


def test_results_have_arrived_when_they_are_returned(fake: FakeTorch) -> None:
    """The host waits for the event after the copies; the same stream each time."""
    for _ in range(2):
        spdl.io.transfer_tensor_h2d({"x": torch.ones(2)})
    assert fake.notes[:2] == ["stream 1 records event 1", "host waits for event 1"]
    assert fake.notes[-2:] == ["stream 1 records event 2", "host waits for event 2"]


def test_the_last_results_are_kept_alive(fake: FakeTorch) -> None:
    """As many as the caller says."""
    results = [spdl.io.transfer_tensor_h2d([torch.ones(2)], num_caches=2) for _ in range(4)]
    (kept,) = _transfer._PER_THREAD.kept.values()
    assert [any(one is each for each in kept) for one in results] == [False, False, True, True]
    last = spdl.io.transfer_tensor_h2d([torch.ones(2)], num_caches=1)
    (kept,) = _transfer._PER_THREAD.kept.values()
    assert [each is last for each in kept] == [True]
    spdl.io.transfer_tensor_h2d([torch.ones(2)], num_caches=0)
    (kept,) = _transfer._PER_THREAD.kept.values()
    assert not kept


def test_each_thread_has_a_stream_of_its_own(fake: FakeTorch) -> None:
    """They do not wait for each other."""
    barrier = threading.Barrier(3)

    def transfer() -> None:
        barrier.wait(60)
        spdl.io.transfer_tensor_h2d([torch.ones(2)])

    threads = [threading.Thread(target=transfer) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {note.partition(" records")[0] for note in fake.notes if "records" in note} == {
        "stream 1",
        "stream 2",
        "stream 3",
    }


def test_the_way_back_waits_for_the_producer_and_for_the_copy(fake: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of the producer's stream first, then copies, then the host waits; nothing if nothing is there."""
    tensor = torch.ones(2)
    monkeypatch.setattr(_transfer, "_with_index", lambda torch_, device: torch.device("cpu"))
    spdl.io.transfer_tensor_d2h([tensor, tensor])
    assert fake.notes == ["default records event 1", "stream 1 waits for event 1", "host waits for stream 1"]
    fake.notes.clear()
    batch = [1, "a"]
    assert spdl.io.transfer_tensor_d2h(batch, producer_event=fake.cuda.Event()) is batch  # type: ignore[arg-type,unused-ignore]
    assert fake.notes == []


@without_gpu
def test_buffers_need_a_device() -> None:
    """Arguments first, then ``DeviceError``."""
    config = spdl.io.cuda_config(0)
    for array in (np.zeros(4), np.zeros(0), np.array(3)):
        with pytest.raises(spdl.io.DeviceError, match="cuda:0"):
            spdl.io.transfer_buffer(array, device_config=config)
    with pytest.raises(ValueError, match="C-contiguous"):
        spdl.io.transfer_buffer(np.zeros((4, 4))[:, ::2], device_config=config)
    with pytest.raises(TypeError, match="must not have Python objects"):
        spdl.io.transfer_buffer(np.array([object()]), device_config=config)
    for wrong in ("text", [1], None):
        with pytest.raises(TypeError, match="buffer must be"):
            spdl.io.transfer_buffer(wrong, device_config=config)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="buffer must be"):
            spdl.io.transfer_buffer_cpu(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cuda_config"):
        spdl.io.transfer_buffer(np.zeros(4), device_config=0)  # type: ignore[arg-type]


@without_gpu
def test_a_buffer_of_a_device_that_is_not_there() -> None:
    """The description can be read; the contents cannot."""
    buffer = spdl.io.CUDABuffer(None, 0, (2, 3), "<f4", 1)
    assert repr(buffer) == "<CUDABuffer: (2, 3) <f4 on cuda:1>"
    assert isinstance(buffer, spdl.io.CUDAArrayInterface)
    with pytest.raises(spdl.io.DeviceError, match="cuda:1"):
        spdl.io.transfer_buffer_cpu(buffer)
    for typestr in ("|b1", "<c8", ">f4"):
        with pytest.raises(TypeError, match="integers or floats"):
            spdl.io.transfer_buffer_cpu(spdl.io.CUDABuffer(None, 0, (2, 3), typestr, 1))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"device_index": -1}, ValueError),
        ({"device_index": "0"}, TypeError),
        ({"device_index": True}, TypeError),
        ({"device_index": 0, "stream": -1}, ValueError),
        ({"device_index": 0, "stream": None}, TypeError),
        ({"device_index": 0, "allocator": len}, TypeError),
        ({"device_index": 0, "allocator": (len,)}, TypeError),
        ({"device_index": 0, "allocator": (len, 3)}, TypeError),
    ],
)
def test_configs_are_checked(options: dict[str, Any], error: type[Exception]) -> None:
    """When they are made."""
    with pytest.raises(error):
        spdl.io.cuda_config(**options)


def test_a_config_says_what_it_was_given() -> None:
    """The default stream is that of the calling thread."""
    assert spdl.io.cuda_config(1) == spdl.io.CUDAConfig(1, 2, None)
    allocator: Any = [len, print]
    assert spdl.io.cuda_config(1, 64, allocator).allocator == tuple(allocator)


@pytest.mark.slow
def test_without_torch_the_error_names_it() -> None:
    """And the way back has nothing to bring."""
    code = """
import sys
sys.modules["torch"] = None
import spdl.io
try:
    spdl.io.transfer_tensor_h2d([1])
except spdl.io.DeviceError as exc:
    print(exc)
print(spdl.io.transfer_tensor_d2h([1]))
from spdl.dataloader import prefetch_to_device
print(list(prefetch_to_device([1, 2])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "torch, which is not installed" in done.stdout
    assert done.stdout.endswith("[1]\n[1, 2]\n")
