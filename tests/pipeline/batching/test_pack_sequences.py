"""``PackSequences``: rows of whole sequences, judged by a first fit that is written down plainly."""

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline.batching import PackedRow, PackSequences
from spdl.pipeline.defs import Outputs
from tests.strategies.profiles import cases

from .feeding import feed, outputs_of


def model(sizes: list[int], length: int, open_bins: int) -> list[list[int]]:
    """Positions in each row, in order of emission: first fit, the oldest row leaves if too many are open."""
    rows: list[list[int]] = []
    bins: list[list[int]] = []
    for position, size in enumerate(sizes):
        if not 0 < size <= length:
            continue
        for held in bins:
            if sum(sizes[k] for k in held) + size <= length:
                break
        else:
            held = []
            bins.append(held)
        held.append(position)
        if sum(sizes[k] for k in held) == length:
            rows.append(held)
            bins.remove(held)
        elif len(bins) > open_bins:
            rows.append(bins.pop(0))
    return rows + bins


def tokens_of(position: int, size: int) -> list[int]:
    """Different for every sequence and place, never the padding."""
    return [1 + 100 * position + k for k in range(size)]


def check_row(row: PackedRow, sequences: list[list[int]], length: int, pad_id: int) -> None:
    """Every part of the row against the sequences that must be in it."""
    tokens, segment_ids, positions, lengths = (np.asarray(part).tolist() for part in row)
    rest = length - sum(map(len, sequences))
    assert tokens == [token for each in sequences for token in each] + [pad_id] * rest
    assert lengths == [len(each) for each in sequences]
    assert segment_ids == [n for n, each in enumerate(sequences, 1) for _ in each] + [0] * rest
    assert positions == [k for each in sequences for k in range(len(each))] + [0] * rest
    offsets = np.asarray(row.cu_seqlens).tolist()
    assert [tokens[start:stop] for start, stop in pairwise(offsets)] == sequences
    assert offsets[0] == 0
    assert (row.num_tokens, row.num_padding) == (length - rest, rest)


@cases(200)
@given(
    sizes=st.lists(st.integers(0, 12), max_size=30),
    length=st.integers(1, 10),
    open_bins=st.integers(1, 4),
    pad_id=st.integers(-1, 0),
)
def test_rows_are_those_of_the_model(sizes: list[int], length: int, open_bins: int, pad_id: int) -> None:
    """Whatever the lengths: the same rows in the same order; nothing is lost, doubled or cut; the counts add up."""
    items = [tokens_of(position, size) for position, size in enumerate(sizes)]
    aggregator = PackSequences(length, open_bins=open_bins, too_long="drop", pad_id=pad_id)
    rows = feed(aggregator, items)
    expected = model(sizes, length, open_bins)
    assert len(rows) == len(expected)
    for row, positions in zip(rows, expected, strict=True):
        check_row(row, [items[k] for k in positions], length, pad_id)
    kept = [size for size in sizes if 0 < size <= length]
    assert aggregator.num_dropped == len(sizes) - len(kept)
    assert (aggregator.num_batches, aggregator.num_items) == (len(rows), len(kept))
    assert (aggregator.num_tokens, aggregator.num_padding) == (sum(kept), len(rows) * length - sum(kept))


@cases(200)
@given(sizes=st.lists(st.integers(0, 25), max_size=15), length=st.integers(1, 10))
def test_long_sequences_are_split(sizes: list[int], length: int) -> None:
    """As if the pieces had come one by one; no token is lost or doubled."""
    items = [tokens_of(position, size) for position, size in enumerate(sizes)]
    pieces = [item[start : start + length] for item in items for start in range(0, len(item), length)]
    aggregator = PackSequences(length, open_bins=3, too_long="split")
    assert feed(aggregator, items) == feed(PackSequences(length, open_bins=3), pieces)
    assert aggregator.num_tokens == sum(sizes)
    assert aggregator.num_dropped == sizes.count(0)


@cases(200)
@given(
    sizes=st.lists(st.integers(0, 9), max_size=12), as_torch=st.booleans(), dtype=st.sampled_from(["uint16", "int64"])
)
def test_arrays_give_arrays_of_the_same_tokens(sizes: list[int], as_torch: bool, dtype: str) -> None:
    """NumPy arrays or torch tensors: the tokens keep their dtype, the rest is int32."""
    torch = pytest.importorskip("torch") if as_torch else None
    items = [tokens_of(position, size) for position, size in enumerate(sizes)]
    arrays: list[Any] = [np.array(item, dtype) for item in items]
    if torch is not None:
        dtype = "int32" if dtype == "uint16" else dtype
        arrays = [torch.tensor(item, dtype=getattr(torch, dtype)) for item in items]
    rows = feed(PackSequences(9, open_bins=2), arrays)
    for row, plain in zip(rows, feed(PackSequences(9, open_bins=2), items), strict=True):
        assert [np.asarray(part).tolist() for part in row] == list(plain)
        assert np.asarray(row.cu_seqlens).tolist() == plain.cu_seqlens
        kinds = {type(part) for part in (*row, row.cu_seqlens)}
        assert kinds == ({np.ndarray} if torch is None else {torch.Tensor})
        assert str(row.tokens.dtype).endswith(dtype)
        assert {str(part.dtype).removeprefix("torch.") for part in (*row[1:], row.cu_seqlens)} == {"int32"}
        assert (row.num_tokens, row.num_padding) == (plain.num_tokens, plain.num_padding)


def test_lists_and_arrays_may_be_mixed() -> None:
    """A row of which any is an array is one of arrays; dtypes are promoted."""
    (row,) = feed(PackSequences(6), [[1, 2], np.array([3], np.uint8), np.array([400], np.int16)])
    assert row.tokens.tolist() == [1, 2, 3, 400, 0, 0]
    torch = pytest.importorskip("torch")
    (row,) = feed(PackSequences(6), [[1, 2], np.array([3], np.uint8), torch.tensor([400])])
    assert row.tokens.tolist() == [1, 2, 3, 400, 0, 0]
    assert row.tokens.dtype == torch.int64


def test_a_row_pickles_and_unpacks() -> None:
    """It is a tuple of its four parts."""
    (row,) = feed(PackSequences(3, pad_id=9), [(1, 2)])
    assert pickle.loads(pickle.dumps(row)) == row
    tokens, segment_ids, positions, lengths = row
    assert (tokens, segment_ids, positions, lengths) == ([1, 2, 9], [1, 1, 0], [0, 1, 0], [2])


def test_an_empty_sequence_is_left_out() -> None:
    """It has nothing to pack; it is counted."""
    aggregator = PackSequences(3)
    result = aggregator.accumulate([])
    assert isinstance(result, Outputs)
    assert result.dropped
    assert outputs_of(aggregator.flush()) == []
    assert aggregator.num_dropped == 1
    assert aggregator.fill_rate == 1.0


def test_a_sequence_too_long_is_an_error_unless_said_otherwise() -> None:
    """The message says what can be done."""
    with pytest.raises(ValueError, match=r'has 4 tokens, more than length=3; too_long="split" .* too_long="drop"'):
        PackSequences(3).accumulate([1, 2, 3, 4])


@pytest.mark.parametrize("item", ["abc", {"input_ids": [1]}, 5, None, {1, 2}, iter([1])])
def test_what_is_no_sequence_is_refused(item: Any) -> None:
    """With the item's type and what to give instead."""
    with pytest.raises(TypeError, match="is not a sequence of token ids: give a list"):
        PackSequences(3).accumulate(item)


@pytest.mark.parametrize("shape", [(), (1, 2)])
def test_arrays_have_one_dimension(shape: tuple[int, ...]) -> None:
    """A batch of one is not a sequence."""
    with pytest.raises(ValueError, match=r"must be one-dimensional, got shape \("):
        PackSequences(3).accumulate(np.zeros(shape, np.int64))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"length": 0}, ValueError, "length must be >= 1, got 0"),
        ({"length": 2.0}, TypeError, "length must be an int"),
        ({"length": 2, "open_bins": 0}, ValueError, "open_bins must be >= 1"),
        ({"length": 2, "too_long": "cut"}, ValueError, "too_long must be one of 'error', 'split', 'drop'"),
        ({"length": 2, "pad_id": None}, TypeError, "pad_id must be an int"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    """When it is made, with the argument's name."""
    with pytest.raises(kind, match=message):
        PackSequences(**arguments)
