"""One row of packed sequences, and how it is made from lists, NumPy arrays or torch tensors.

Neither library is imported here: if there are arrays, the caller has imported their library.
"""

from __future__ import annotations

import sys
from itertools import accumulate, chain
from typing import Any, NamedTuple

from ._amounts import short_repr


class PackedRow(NamedTuple):
    """Several sequences in one row of fixed length, one after the other, padded at the end.

    Lists of ``int``, or arrays if the sequences were arrays: NumPy arrays, or torch tensors on the device of the
    sequences. ``n`` is the length of the row and ``k`` the number of sequences in it.

    Attributes:
        tokens: Token ids, then padding. Shape ``(n,)``; arrays have the dtype of the sequences.
        segment_ids: Sequence of each token: 1 for the first sequence, 2 for the second, and so on; 0 for padding. Two
            tokens may attend to each other if their ids are equal and not 0. Shape ``(n,)``, ``int32``.
        positions: Index of each token in its own sequence, from 0; 0 for padding. Shape ``(n,)``, ``int32``.
        lengths: Number of tokens in each sequence; the sum is ``n`` minus the padding. Shape ``(k,)``, ``int32``.
    """

    tokens: Any
    segment_ids: Any
    positions: Any
    lengths: Any

    @property
    def cu_seqlens(self) -> Any:
        """Start of each sequence and end of the last one. Shape ``(k + 1,)``, ``int32``.

        These are the cumulative sequence lengths for variable-length attention kernels. Padding is not included.
        """
        lengths = self.lengths
        if isinstance(lengths, list):
            return [0, *accumulate(lengths)]
        size = len(lengths) + 1
        if _library_of(lengths) == "numpy":
            offsets = sys.modules["numpy"].zeros(size, lengths.dtype)
        else:
            offsets = lengths.new_zeros(size)
        offsets[1:] = lengths.cumsum(0)
        return offsets

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the row."""
        return sum(self.lengths) if isinstance(self.lengths, list) else int(self.lengths.sum())

    @property
    def num_padding(self) -> int:
        """Number of padding positions in the row."""
        return len(self.tokens) - self.num_tokens


def _library_of(item: Any) -> str | None:
    """``"numpy"`` or ``"torch"`` for their arrays, ``None`` for anything else."""
    for name, array in (("numpy", "ndarray"), ("torch", "Tensor")):
        # A library that another thread is still importing may lack the attribute.
        kind = getattr(sys.modules.get(name), array, None)
        if kind is not None and isinstance(item, kind):
            return name
    return None


def check_sequence(item: Any) -> int:
    """Return the number of tokens in a sequence.

    Raises:
        TypeError: ``item`` is not a sequence of numbers: text, a mapping, or an object without length or slicing.
        ValueError: ``item`` is an array that is not one-dimensional.
    """
    if isinstance(item, (list, tuple)):
        return len(item)
    if _library_of(item) is not None:
        if item.ndim != 1:
            raise ValueError(f"item {short_repr(item)} must be one-dimensional, got shape {tuple(item.shape)}")
        return len(item)
    if isinstance(item, str) or hasattr(type(item), "keys") or not hasattr(type(item), "__getitem__"):
        raise TypeError(
            f"item {short_repr(item)} of type {type(item).__qualname__} is not a sequence of token ids: give a list, a "
            "one-dimensional NumPy array or a torch tensor (what a tokenizer calls ids or input_ids)"
        )
    return len(item)


def pack_row(sequences: list[Any], length: int, pad_id: int) -> PackedRow:
    """Pack ``sequences`` into one row. They are never empty and have at most ``length`` tokens in total."""
    libraries = {_library_of(each) for each in sequences}
    if "torch" in libraries:
        return _pack_tensors(sequences, length, pad_id)
    if "numpy" in libraries:
        return _pack_arrays(sequences, length, pad_id)
    lengths = [len(each) for each in sequences]
    padding = [0] * (length - sum(lengths))
    return PackedRow(
        [*chain.from_iterable(sequences), *([pad_id] * len(padding))],
        [*chain.from_iterable([number] * n for number, n in enumerate(lengths, start=1)), *padding],
        [*chain.from_iterable(map(range, lengths)), *padding],
        lengths,
    )


def _pack_arrays(sequences: list[Any], length: int, pad_id: int) -> PackedRow:
    np: Any = sys.modules["numpy"]
    arrays = [np.asarray(each) for each in sequences]
    lengths = np.array([len(each) for each in arrays], np.int32)
    tokens = np.full(length, pad_id, np.result_type(*arrays))
    segment_ids = np.zeros(length, np.int32)
    positions = np.zeros(length, np.int32)
    start = 0
    for number, array in enumerate(arrays, start=1):
        stop = start + len(array)
        tokens[start:stop] = array
        segment_ids[start:stop] = number
        positions[start:stop] = np.arange(len(array), dtype=np.int32)
        start = stop
    return PackedRow(tokens, segment_ids, positions, lengths)


def _pack_tensors(sequences: list[Any], length: int, pad_id: int) -> PackedRow:
    torch: Any = sys.modules["torch"]
    first = next(each for each in sequences if isinstance(each, torch.Tensor))
    tensors = [torch.as_tensor(each, device=first.device) for each in sequences]
    sizes = [len(each) for each in tensors]
    num_padding = length - sum(sizes)
    as_int32 = {"dtype": torch.int32, "device": first.device}
    lengths = torch.tensor(sizes, **as_int32)
    numbers = torch.arange(1, len(sizes) + 1, **as_int32)
    padding = torch.zeros(num_padding, **as_int32)
    return PackedRow(
        torch.cat([*tensors, first.new_full((num_padding,), pad_id)]),
        torch.cat([torch.repeat_interleave(numbers, lengths), padding]),
        torch.cat([*(torch.arange(size, **as_int32) for size in sizes), padding]),
        lengths,
    )
