"""Which source positions a batch comes from: those of its items, and no other."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline
from spdl.pipeline.batching import CostBudget, LengthBuckets, MaxWait, PackSequences
from spdl.pipeline.defs import Aggregator
from tests.strategies.profiles import cases
from tests.support.running import TIMEOUT, build_of, running
from tests.support.watching import Log, hooked

MAKE: dict[str, Callable[[], Aggregator[Any, Any]]] = {
    "budget, alone": lambda: CostBudget(8, oversized="alone"),
    "budget, drop": lambda: CostBudget(6, padded=True, oversized="drop"),
    "buckets": lambda: LengthBuckets([2, 4], 3),
    "buckets, alone": lambda: LengthBuckets([2, 4], max_cost=7, oversized="alone"),
    "packing, split": lambda: PackSequences(4, open_bins=2, too_long="split"),
    "packing, drop": lambda: PackSequences(6, open_bins=2, too_long="drop"),
    "waiting": lambda: MaxWait(3, 60.0),
}


def tokens_in(output: Any) -> Counter[int]:
    """How many tokens of each item an output holds; a token is the position of its item."""
    if isinstance(output, list):
        return Counter(token for item in output for token in item)
    return Counter(output.tokens[: output.num_tokens])


@cases(150)
@given(name=st.sampled_from(sorted(MAKE)), sizes=st.lists(st.integers(1, 9), max_size=16), has_hooks=st.booleans())
def test_a_position_is_consumed_when_all_of_its_item_was_read(name: str, sizes: list[int], has_hooks: bool) -> None:
    """Not while a part of it waits in the aggregator or in a later output; what is dropped is consumed too."""
    items = [[position] * size for position, size in enumerate(sizes)]
    builder = build_of(items, lambda b: b.aggregate(MAKE[name]()), sink=1)
    read: Counter[int] = Counter()
    unread: set[int] = set()
    options: Any = {"task_hook_factory": hooked(Log())} if has_hooks else {}
    with running(builder, num_threads=2, **options) as pipeline:
        positions = pipeline._engine.ledger.sources[0]
        for output in pipeline.get_iterator(timeout=TIMEOUT):
            read += tokens_in(output)
            partly = {k for k, size in enumerate(sizes) if 0 < read[k] < size}
            assert not [k for k in partly if positions.is_consumed(k)]
            assert all(positions.is_consumed(k) for k, size in enumerate(sizes) if read[k] == size)
            unread |= {k for k in range(len(sizes)) if positions.is_consumed(k) and not read[k]}
        stats = pipeline.stats().stages[1]
    assert not any(read[k] for k in unread)  # consumed without having been read: it was dropped
    num_kept = sum(read[k] == size for k, size in enumerate(sizes))
    assert set(read.values()) <= set(sizes)
    assert stats.num_dropped == len(sizes) - num_kept
    assert positions.num_consumed == len(sizes)


@cases(60)
@given(name=st.sampled_from(sorted(MAKE)), sizes=st.lists(st.integers(1, 9), max_size=12))
def test_errors_name_the_items_of_the_batch(name: str, sizes: list[int]) -> None:
    """A failed batch tells the positions of what is in it, in order."""
    failed: list[Counter[int]] = []

    def refuse(output: Any) -> None:
        failed.append(tokens_in(output))
        raise ValueError

    items = [[position] * size for position, size in enumerate(sizes)]
    pipeline: Pipeline[Any]
    with running(build_of(items, lambda b: b.aggregate(MAKE[name]()).pipe(refuse, max_failures=-1))) as pipeline:
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == []
        failures = pipeline.stats().stages[2].failures
    pieces = Counter[int]()  # how many of each item were seen
    origins = []
    for tokens in failed:
        is_cut = {k: name == "packing, split" and sizes[k] > 4 for k in tokens}
        origins.append({(k, pieces[k]) if is_cut[k] else k for k in tokens})
        pieces.update(tokens.keys())
    found: list[Any] = [failure.origin for failure in failures]
    assert [set(each) for each in found] == origins[-16:]  # more are not kept
