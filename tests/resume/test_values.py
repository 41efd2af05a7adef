"""States of user objects inside a document."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.resume._values import pack, unpack
from tests.strategies.profiles import cases

torch: Any = pytest.importorskip("torch")


def tensors() -> Any:
    """Tensors with plain values, whole or views."""
    dtypes = st.sampled_from([torch.uint8, torch.int64, torch.float32, torch.float64, torch.bool, torch.complex64])
    shapes = st.lists(st.integers(0, 4), max_size=3)
    made = st.builds(lambda shape, dtype: torch.randint(0, 2, shape).to(dtype), shapes, dtypes)
    return made.map(lambda each: each.t() if each.dim() == 2 else each)


@cases(50)
@given(tensors())
def test_equal_states_are_equal_texts(tensor: Any) -> None:
    """Loaders and sources compare states, to find out what loading one has changed."""
    state = {"generator": tensor, "position": (1, 2)}
    packed = pack(state)
    assert pack({"generator": tensor.clone(), "position": (1, 2)}) == packed
    again = unpack(json.loads(json.dumps(packed)), "the dataset")
    assert again["position"] == (1, 2)
    assert again["generator"].dtype == tensor.dtype
    assert torch.equal(again["generator"], tensor)
    again["generator"].zero_()  # it can be written to


def test_a_view_does_not_bring_the_rest() -> None:
    assert len(str(pack(torch.zeros(100_000)[:2]))) < 1000


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(3, dtype=torch.bfloat16),
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.nn.Parameter(torch.ones(2)),
    ],
    ids=["a type that NumPy lacks", "requires_grad", "sparse", "a subclass"],
)
def test_other_tensors(make: Any) -> None:
    tensor = make()
    again = unpack(pack({"weights": tensor}), "the dataset")["weights"]
    assert (type(again), again.dtype, again.requires_grad) == (type(tensor), tensor.dtype, tensor.requires_grad)
    assert torch.equal(again.to_dense(), tensor.to_dense())
