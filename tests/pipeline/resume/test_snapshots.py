"""The saved states of a source that are kept, against a list of all that were saved."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._engine import _source_state
from spdl.pipeline._engine._origin import Positions
from spdl.pipeline._engine._source_state import Snapshot, Snapshots, snapshot_before
from tests.strategies.profiles import cases

#: What happens to the source or its items: an item is issued, the k-th oldest is consumed, a pass ends, the consumer
#: reads the end of an epoch.
EVENTS = st.lists(
    st.one_of(
        st.just("issue"),
        st.just("issue"),
        st.integers(0, 5),
        st.sampled_from(["end pass", "read end"]),
        st.integers(2, 12).map(lambda num: f"issue {num}"),
    ),
    max_size=60,
)


@cases(200)
@patch.object(_source_state, "_MOST", 4)
@given(EVENTS)
def test_each_live_epoch_keeps_the_state_before_its_first_item_in_flight(events: list[str | int]) -> None:
    """Whatever is read, held back or thinned out; and not more states than the limit and one for each live epoch."""
    positions, kept, saved = Positions(), Snapshots(), list[Snapshot]()
    ends = [0]  # the first index of each epoch
    num_read = 0  # epochs whose end was read

    def save() -> None:
        snapshot = Snapshot(len(ends) - 1, positions.next_index, {"number": len(saved)})
        saved.append(snapshot)
        kept.add(snapshot, positions)

    def issue() -> None:
        positions.pending.add(positions.next_index)
        positions.next_index += 1
        save()

    save()
    for event in events:
        if isinstance(event, int):
            for index in sorted(positions.pending)[event : event + 1]:
                positions.consume(index)
        elif event == "end pass":
            positions.begin_epoch()
            ends.append(positions.next_index)
            save()
        elif event == "read end":
            if num_read + 1 < len(ends) and not any(index < ends[num_read + 1] for index in positions.pending):
                positions.end_epoch()
                num_read += 1
        else:
            for _ in range(int(event.partition(" ")[2] or 1)):
                issue()
        for epoch in range(num_read, len(ends)):
            stop = ends[epoch + 1] if epoch + 1 < len(ends) else positions.next_index
            low = min((index for index in positions.pending if ends[epoch] <= index < stop), default=stop)
            found = snapshot_before(kept.saved, epoch, low)
            assert found is not None
            assert found in saved
            assert ends[epoch] <= found.next_index <= low
        assert len(kept.saved) <= 4 + (len(ends) - num_read) + 1
        assert kept.saved == [each for each in saved if each in kept.saved]
