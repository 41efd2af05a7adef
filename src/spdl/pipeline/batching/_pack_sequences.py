"""Sequences of token ids in rows of fixed length: a row of lists, NumPy arrays or torch tensors, and the aggregator.

Neither library is imported here: if there are arrays, the caller has imported their library.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from itertools import accumulate, chain
from typing import Any, Literal, NamedTuple

from spdl._numbers import as_int, require_word
from spdl.pipeline.defs import Outputs

from ._counting import CountingAggregator, short_repr


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
    """Return the number of tokens in a sequence, if it is one."""
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


class _Bin(NamedTuple):
    """An open row: its sequences and their item numbers."""

    sequences: list[Any]
    numbers: list[int]


class PackSequences(CountingAggregator[Any, PackedRow]):
    """Rows of fixed length, each filled with whole sequences by first fit.

    A sequence goes into the oldest open row that has room for it. If none has, a new row is opened; if there are then
    more than ``open_bins`` rows, the oldest is padded and emitted. A full row is emitted at once. So a sequence waits
    for at most ``open_bins`` new rows, and the same stream always gives the same rows. In a row, sequences are in order
    of arrival. At the end of the stream and of each epoch, the open rows are emitted, oldest first.

    Source: first fit with bounded space, closing the oldest bin (k-bounded first fit): E. G. Coffman, J. Csirik,
    G. Galambos, S. Martello, D. Vigo, "Bin Packing Approximation Algorithms: Survey and Classification", Handbook of
    Combinatorial Optimization, 2013, section 3.

    Args:
        length: Number of tokens in a row.
        open_bins: Maximum number of open rows. More rows mean less padding, but delay sequences longer and take longer
            to search.
        too_long: Policy for a sequence longer than a row. ``"error"``: the stage fails. ``"split"``: it is split into
            pieces of ``length`` tokens and a remainder; each piece is packed as a sequence. ``"drop"``: it is dropped,
            and counted in ``num_dropped`` and in the stage's statistics.
        pad_id: Token id of padding.

    The items are lists or tuples of ``int``, one-dimensional NumPy arrays, or torch tensors. If a row contains an
    array, its fields are arrays. Items must not be modified later: their tokens are copied when the row is emitted. An
    empty sequence is dropped and counted as such.

    Attributes:
        num_batches, num_items: Number of emitted rows, and of the sequences or pieces in them.
        num_tokens, num_padding: Tokens and padding in them; ``fill_rate`` is the share of tokens.
        num_dropped: Number of dropped sequences.

    Raises:
        TypeError: An argument has the wrong type. At runtime: an item is not a sequence of token ids.
        ValueError: An argument is out of range. At runtime: a sequence is too long, or an array is not
            one-dimensional.
    """

    def __init__(
        self,
        length: int,
        *,
        open_bins: int = 64,
        too_long: Literal["error", "split", "drop"] = "error",
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self._length, self._open_bins = as_int("length", length, 1), as_int("open_bins", open_bins, 1)
        require_word("too_long", too_long, ("error", "split", "drop"))
        self._too_long = too_long
        self._pad_id = as_int("pad_id", pad_id)
        self._bins: list[_Bin] = []  # oldest first
        self._rooms: list[int] = []  # free tokens of each bin

    def accumulate(self, item: Any) -> Outputs[PackedRow] | None:
        return self.accumulate_rest(item, ())

    def accumulate_rest(self, item: Any, done: Container[int]) -> Outputs[PackedRow] | None:
        size = len(item) if type(item) is list else check_sequence(item)
        length, number = self._length, self._num_given
        self._num_given += 1
        if 0 < size <= length:
            return self._close(self._place(item, size, number))
        if size and self._too_long == "error":
            raise ValueError(
                f"item {short_repr(item)} has {size} tokens, more than length={length}; "
                'too_long="split" splits such a sequence into pieces, too_long="drop" drops it'
            )
        if size == 0 or self._too_long == "drop":
            self.num_dropped += 1
            return Outputs(dropped=True)
        num_full = (size - 1) // length
        rows = [
            _Bin([item[piece * length : (piece + 1) * length]], [number])
            for piece in range(num_full)
            if piece not in done
        ]
        if num_full in done:
            return self._close(rows)
        last = num_full * length
        filled = self._place(item[last:], size - last, number)
        is_open = all(number not in each.numbers for each in filled)
        return self._close(rows + filled, unfinished=[0] if is_open else [])

    def flush(self) -> Outputs[PackedRow] | None:
        bins, self._bins, self._rooms = self._bins, [], []
        return self._close(bins)

    def _place(self, sequence: Any, size: int, number: int) -> list[_Bin]:
        """Put a sequence into the first row with room; return the row to emit because of it, if any."""
        rooms, bins = self._rooms, self._bins
        for index, room in enumerate(rooms):
            if room >= size:
                bins[index].sequences.append(sequence)
                bins[index].numbers.append(number)
                if room > size:
                    rooms[index] = room - size
                    return []
                del rooms[index]
                return [bins.pop(index)]
        opened = _Bin([sequence], [number])
        if size == self._length:
            return [opened]
        bins.append(opened)
        rooms.append(self._length - size)
        if len(bins) <= self._open_bins:
            return []
        del rooms[0]
        return [bins.pop(0)]

    def _close(self, bins: list[_Bin], unfinished: Sequence[int] = ()) -> Outputs[PackedRow] | None:
        if not bins:
            return None
        for each in bins:
            num_tokens = sum(map(len, each.sequences))
            self.count(len(each.sequences), num_tokens, self._length - num_tokens)
        rows = [pack_row(each.sequences, self._length, self._pad_id) for each in bins]
        return Outputs(rows, inputs=[self.ages(each.numbers) for each in bins], unfinished=unfinished)

    def __repr__(self) -> str:
        return f"PackSequences({self._length}, open_bins={self._open_bins})"
