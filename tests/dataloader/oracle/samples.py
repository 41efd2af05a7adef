"""Samples of every type, by name, and the dataset that makes them."""

from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

__all__ = ["COLLATED", "CONVERTED", "Made"]


class Point(NamedTuple):
    x: Any
    y: Any


Old = namedtuple("Old", ["left", "right"])


class Own:
    """A class that torch knows nothing of."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass
class Record:
    image: Any
    label: int


class Text(str):
    """A kind of str."""


class Cells(list[Any]):
    """A kind of list."""


class MyTensor(torch.Tensor):
    """A kind of tensor."""


def _floats(k: int) -> Any:
    return torch.arange(6, dtype=torch.float32).reshape(2, 3) + k


#: By name, what sample ``k`` of a batch is.
COLLATED: dict[str, Callable[[int], Any]] = {
    "tensor": _floats,
    "tensor 0-d": lambda k: torch.tensor(k),
    "tensor empty": lambda k: torch.zeros(0, 3),
    "tensor large": lambda k: torch.full((300, 400), k, dtype=torch.float64),
    "tensor uint8": lambda k: torch.full((3, 64, 64), k, dtype=torch.uint8),
    "tensor bool": lambda k: torch.tensor([k % 2 == 0, True]),
    "tensor half": lambda k: torch.tensor([k, 1.5], dtype=torch.float16),
    "tensor bfloat16": lambda k: torch.tensor([k, 1.5], dtype=torch.bfloat16),
    "tensor complex": lambda k: torch.tensor([1j * k]),
    "tensor transposed": lambda k: _floats(k).t(),
    "tensor strided": lambda k: torch.arange(20)[k::4][:4],
    "tensor expanded": lambda k: torch.tensor([k]).expand(5),
    "tensor with nan": lambda k: torch.tensor([float("nan"), k]),
    "tensor that needs gradients": lambda k: _floats(k).requires_grad_(),
    "tensor of own kind": lambda k: _floats(k).as_subclass(MyTensor),
    "tensors of other shapes": lambda k: torch.zeros(k + 1),
    "tensors of other dtypes": lambda k: torch.zeros(2, dtype=[torch.float32, torch.float64][k % 2]),
    "sparse tensor": lambda k: torch.eye(3).to_sparse(),
    "sparse rows": lambda k: torch.eye(3).to_sparse_csr(),
    "nested tensor": lambda k: torch.nested.nested_tensor([torch.zeros(k), torch.zeros(3)]),
    "array": lambda k: np.arange(6, dtype=np.float32).reshape(2, 3) + k,
    "array uint8": lambda k: np.full((4, 4, 3), k, dtype=np.uint8),
    "array int64": lambda k: np.array([k, -k]),
    "array bool": lambda k: np.array([k % 2 == 0]),
    "array uint16": lambda k: np.array([k, 65535], dtype=np.uint16),
    "array in Fortran order": lambda k: np.asfortranarray(np.arange(6).reshape(2, 3) + k),
    "array 0-d": lambda k: np.array(k),
    "array of text": lambda k: np.array(["a", "b"]),
    "array of objects": lambda k: np.array([Own(1), None], dtype=object),
    "array of big-endian": lambda k: np.array([k], dtype=">f4"),
    "float32": lambda k: np.float32(k / 3),
    "float64": lambda k: np.float64(k / 3),
    "int8": lambda k: np.int8(k),
    "uint8": lambda k: np.uint8(200 + k),
    "bool_": lambda k: np.bool_(k % 2),
    "str_": lambda k: np.str_(f"text {k}"),
    "int": lambda k: k,
    "large int": lambda k: 2**62 + k,
    "too large int": lambda k: 2**70 + k,
    "negative int": lambda k: -k,
    "bool": lambda k: k % 2 == 0,
    "int, then float": lambda k: [k, k / 2][k % 2],
    "float": lambda k: k / 3,
    "nan": lambda k: float("nan"),
    "complex": lambda k: 1j * k,
    "str": lambda k: f"text {k}",
    "str of own kind": lambda k: Text(k),
    "bytes": lambda k: bytes([k]) * k,
    "large bytes": lambda k: bytes([k]) * 100_000,
    "bytearray": lambda k: bytearray([k, 1]),
    "None": lambda k: None,
    "dict": lambda k: {"image": _floats(k), "label": k, "name": f"n{k}"},
    "dict of other keys": lambda k: {f"key {k}": k},
    "dict of more keys": lambda k: {"a": k, **({"b": 1} if k else {})},
    "dict, integer keys": lambda k: {1: k, 0: k / 2},
    "dict, empty": lambda k: {},
    "ordered dict": lambda k: OrderedDict(b=k, a=_floats(k)),
    "default dict": lambda k: defaultdict(list, {"a": k}),
    "user dict": lambda k: UserDict({"a": k}),
    "tuple": lambda k: (_floats(k), k),
    "tuple, empty": lambda k: (),
    "tuple, one": lambda k: (k,),
    "tuples of other lengths": lambda k: (k,) * (k + 1),
    "list": lambda k: [_floats(k), k, f"n{k}"],
    "list of own kind": lambda k: Cells([k, k / 2]),
    "user list": lambda k: UserList([k, k / 2]),
    "range": lambda k: range(k, k + 3),
    "namedtuple": lambda k: Point(_floats(k), k),
    "old namedtuple": lambda k: Old({"a": k}, [k]),
    "nested": lambda k: {"a": [Point(k, (k, {"b": _floats(k)})), f"{k}"], "c": ({"d": np.float32(k)},)},
    "nested none": lambda k: {"a": k, "b": None},
    "own class": Own,
    "record": lambda k: Record(_floats(k), k),
    "set": lambda k: {k},
    "deque": lambda k: memoryview(bytes([k, 2])),
}

#: The same without batches.
CONVERTED: dict[str, Callable[[int], Any]] = {
    name: make
    for name, make in COLLATED.items()
    if name not in ("deque", "own class", "sparse tensor", "sparse rows", "nested tensor", "array of big-endian")
}


class Made(Dataset[Any]):
    """``size`` samples for each name: ``made[name, k]``."""

    def __getitem__(self, key: tuple[str, int]) -> Any:
        name, k = key
        return COLLATED[name](k)

    def __len__(self) -> int:
        return 4 * len(COLLATED)
