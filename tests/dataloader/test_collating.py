"""Tensors stacked for the loader to read: the same as torch stacks them, whatever they are."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils.data import default_collate  # noqa: E402 - it needs torch
from torch.utils.data._utils.collate import default_collate_fn_map  # noqa: E402

from spdl.dataloader._torch.processes._process_main import _stack, collate_in_place  # noqa: E402

_DTYPES = [torch.uint8, torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]


@settings(deadline=None)
@given(
    dtype=st.sampled_from(_DTYPES),
    shape=st.lists(st.integers(0, 40), max_size=3),
    count=st.integers(1, 5),
    is_transposed=st.booleans(),
)
def test_tensors_are_stacked(dtype: Any, shape: list[int], count: int, is_transposed: bool) -> None:
    """Small and large, in any order of memory."""
    tensors = [torch.full(shape, k).to(dtype) for k in range(count)]
    if is_transposed and len(shape) > 1:
        tensors = [each.transpose(0, -1) for each in tensors]
    found, expected = _stack(tensors), torch.stack(tensors)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.is_contiguous()
    assert torch.equal(found, expected)


def _nested(layout: Any = torch.strided) -> Any:
    return torch.nested.nested_tensor([torch.zeros(2000, 2), torch.zeros(2, 2)], layout=layout)


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: [torch.zeros(2000), torch.zeros(2001)],
        lambda: [torch.eye(2).to_sparse()] * 2,
        lambda: [torch.zeros(2000), torch.eye(2).to_sparse()],
        lambda: [_nested()] * 2,
        lambda: [torch.zeros(2000), _nested()],
        lambda: [_nested(torch.jagged)] * 2,
        lambda: [torch.zeros(2000), 3],
    ],
    ids=["shapes", "sparse", "plain and sparse", "nested", "plain and nested", "jagged", "types"],
)
def test_what_torch_refuses_is_refused(make: Callable[[], list[Any]]) -> None:
    """With its type and its words."""
    tensors = make()
    with pytest.raises((RuntimeError, TypeError)) as expected:
        default_collate(tensors)
    with pytest.raises(type(expected.value)) as found:
        _stack(tensors)
    assert str(found.value) == str(expected.value)


def test_tensors_of_other_kinds_keep_what_they_are() -> None:
    """Mixed dtypes are promoted, gradients go on, as torch does it where it has no workers."""
    mixed = [torch.zeros(2000), torch.zeros(2000, dtype=torch.float64)]
    assert torch.equal(_stack(mixed), torch.stack(mixed))
    assert _stack([torch.zeros(2000, requires_grad=True)]).requires_grad


def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only torch's own way to collate tensors is replaced."""
    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, len)
    collate_in_place()
    assert default_collate_fn_map[torch.Tensor] is len
    monkeypatch.undo()
    original = default_collate_fn_map[torch.Tensor]
    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, original)
    collate_in_place()
    assert default_collate_fn_map[torch.Tensor] is _stack
