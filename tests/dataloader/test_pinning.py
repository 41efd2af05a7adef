"""Page-locked memory, with a fake in place of the accelerator; with a real one where there is one."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import TensorDataset  # noqa: E402

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402
from spdl.dataloader._torch._pinning import Pin, find_pin  # noqa: E402
from tests.support.gpu import require_cuda  # noqa: E402


class Accelerator:
    """What ``torch.accelerator`` is, as far as it is used."""

    def __init__(self, kind: str | None) -> None:
        self.kind = kind
        self.was_set: list[int] = []

    def is_available(self) -> bool:
        return self.kind is not None

    def current_accelerator(self) -> Any:
        return SimpleNamespace(type=self.kind)

    def current_device_index(self) -> int:
        return 3

    def set_device_index(self, index: int) -> None:
        self.was_set.append(index)


class Pinnable:
    """A batch that pins itself, which torch leaves to it."""

    is_pinned = False

    def pin_memory(self) -> "Pinnable":
        self.is_pinned = True
        return self


def test_batches_are_pinned_for_the_device_of_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of ours starts with the first device; the one to use is that which was current at ``iter``."""
    accelerator = Accelerator("cuda")
    monkeypatch.setattr(torch, "accelerator", accelerator)
    loader = get_pytorch_dataloader(
        range(4), 2, workers="thread", num_workers=2, pin_memory=True, collate_fn=lambda _: Pinnable()
    )
    assert [batch.is_pinned for batch in loader] == [True, True]
    assert set(accelerator.was_set) == {3}


@pytest.mark.parametrize(
    ("kind", "message"), [(None, "no accelerator is found"), ("mps", "not supported on MPS"), ("cuda", None)]
)
def test_what_cannot_be_pinned_is_said(monkeypatch: pytest.MonkeyPatch, kind: str | None, message: str | None) -> None:
    """And then not attempted."""
    monkeypatch.setattr(torch, "accelerator", Accelerator(kind))
    said: list[str] = []
    pin = find_pin("", complain=said.append)
    assert (pin is None) == (message is not None)
    assert len(said) == (message is not None)
    assert message is None or message in said[0]


def test_older_torch_has_cuda_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.accelerator`` came with torch 2.6."""
    monkeypatch.delattr(torch, "accelerator")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert find_pin("", complain=pytest.fail) == Pin(1)


@pytest.mark.gpu
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_are_pinned_on_a_gpu(num_workers: int) -> None:
    """Tensors of batches are in page-locked memory."""
    require_cuda()
    dataset = TensorDataset(torch.arange(8))
    loader = get_pytorch_dataloader(dataset, 4, workers="thread", num_workers=num_workers, pin_memory=True)
    assert all(tensor.is_pinned() for (tensor,) in loader)
