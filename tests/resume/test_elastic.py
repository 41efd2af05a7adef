"""The law of elastic resume, in arithmetic: whatever the two worlds are, each position is issued exactly once."""

import itertools
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl import resume
from spdl.resume import ResumeError
from spdl.resume._document import decode, encode
from spdl.resume._elastic import document_for, issue_order, unconsumed
from spdl.resume._ranges import Ranges
from tests.strategies.profiles import cases

WORLDS = (1, 2, 3, 4, 8)


def source_of(rank: int, world: int, length: int, *, drop_last: bool = False, **others: Any) -> dict[str, Any]:
    plain = {"kind": "indexed", "lockstep": False, "epochs": [], "ended": False}
    return {**plain, "rank": rank, "world": world, "length": length, "drop_last": drop_last, **others}


def pipeline_of(*sources: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"kind": "pipeline", "fingerprint": [["source"]], "approximate": [], "sources": list(sources), **others}


class Rank:
    """A rank that goes on from a document, and consumes what it is told to, in any order."""

    def __init__(self, document: dict[str, Any]) -> None:
        (self.source,) = document["sources"]
        self.consumed: dict[int, list[int]] = {}  # global positions, by epoch
        self.done: dict[int, set[int]] = {}  # local numbers
        self.epochs = {epoch["epoch"]: epoch for epoch in self.source["epochs"]}

    def left(self, epoch: int) -> list[int]:
        """The global positions that it issues in an epoch, in this order."""
        order = issue_order(self.source, self.epochs.get(epoch))
        own = self.epochs.get(epoch, {})
        return [order[local] for local in unconsumed(own, len(order)) if local not in self.done.get(epoch, ())]

    def consume(self, epoch: int, places: set[int]) -> None:
        """Those at these places of what it issues."""
        order, left = issue_order(self.source, self.epochs.get(epoch)), self.left(epoch)
        for place in places:
            self.consumed.setdefault(epoch, []).append(left[place])
            self.done.setdefault(epoch, set()).add(order.index(left[place]))

    def document(self, epochs: list[int], num_ahead: int = 0, entered: int | None = None) -> dict[str, Any]:
        """Its state, with these epochs live, having read ahead in the last that it has entered."""
        live = []
        entered = epochs[-1] if entered is None else entered
        for epoch in epochs:
            if epoch > entered:
                live.append(self.epochs[epoch])
                continue
            own = self.epochs.get(epoch, {"epoch": epoch})
            length = len(issue_order(self.source, own if "todo" in own else None))
            consumed = Ranges([(0, own.get("high", 0))]) - Ranges.from_json(own.get("holes", []))
            consumed |= Ranges.of(self.done.get(epoch, ()))
            high = max(own.get("high", 0), min(length, consumed.stop + num_ahead)) if epoch == entered else length
            live.append({**own, "high": high, "holes": (Ranges([(0, high)]) - consumed).to_json()})
        return pipeline_of({**self.source, "epochs": live})


def resumed(documents: list[dict[str, Any]], world: int) -> list[Rank]:
    """The ranks of a new world, which go on from the states of those of another."""
    state = resume.gather([encode(document) for document in documents])
    state = json.loads(json.dumps(state))
    return [Rank(document_for(decode(state, "a rank"), rank, world)) for rank in range(world)]


def draw_consumption(data: st.DataObject, ranks: list[Rank], epoch: int) -> None:
    """Let each rank consume some of what it has, at random: most of the first, and some behind them."""
    for rank in ranks:
        total = len(rank.left(epoch))
        most = data.draw(st.integers(0, total))
        holes = data.draw(st.sets(st.integers(0, max(0, most - 1)), max_size=5))
        rank.consume(epoch, set(range(most)) - holes)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(WORLDS, WORLDS)))
@cases(60)
@given(data=st.data(), length=st.integers(0, 90), drop_last=st.booleans())
def test_each_position_is_issued_exactly_once(
    old: int, new: int, data: st.DataObject, length: int, drop_last: bool
) -> None:
    """Over three worlds, with any positions pending: nothing is lost but the last incomplete round, nothing repeats."""
    length = max(length, old if drop_last else 0)
    third = data.draw(st.sampled_from(WORLDS))
    ranks = [Rank(pipeline_of(source_of(rank, old, length, drop_last=drop_last))) for rank in range(old)]
    issued: list[int] = []
    for world in (new, third):
        draw_consumption(data, ranks, 0)
        issued += [position for rank in ranks for position in rank.consumed.get(0, [])]
        ahead = data.draw(st.integers(0, 9))
        ranks = resumed([rank.document([0], ahead) for rank in ranks], world)
    rest = [rank.left(0) for rank in ranks]
    assert all(own == sorted(own) for own in rest)
    issued += itertools.chain.from_iterable(rest)
    assert len(issued) == len(set(issued)), "a position is issued twice"
    missing = sorted(set(range(length)) - set(issued))
    if not drop_last:
        assert missing == []
    elif third == new == old:
        assert missing == list(range(length - length % old, length))
    elif third != new:
        # What the last distribution dropped is fewer than a round, and each rank's state says what it is.
        reported = [Ranges.from_json(rank.epochs[0]["dropped"]) for rank in ranks]
        assert all(list(dropped) == missing for dropped in reported)
        assert len(missing) < third
        assert len({len(own) for own in rest}) == 1


@pytest.mark.parametrize("world", WORLDS)
@cases(40)
@given(data=st.data(), steps=st.integers(0, 12), per_rank=st.integers(1, 3))
def test_global_batches_are_the_same_in_every_world(world: int, data: st.DataObject, steps: int, per_rank: int) -> None:
    """After ranks stopped at the same step, a global batch of 24 has the same positions however many go on."""
    total, batch = 24 * 20, 24
    ranks = [Rank(pipeline_of(source_of(rank, 8, total))) for rank in range(8)]
    for rank in ranks:
        rank.consume(0, set(range(steps * per_rank)))
    expected = list(range(8 * steps * per_rank, total))
    found = [
        rank.left(0) for rank in resumed([rank.document([0], data.draw(st.integers(0, 5))) for rank in ranks], world)
    ]
    share = batch // world
    for step in range(len(expected) // batch):
        positions = [position for own in found for position in own[step * share : (step + 1) * share]]
        assert sorted(positions) == expected[step * batch : (step + 1) * batch]


@cases(100)
@given(
    data=st.data(),
    length=st.integers(8, 60),
    drop_last=st.booleans(),
    old=st.sampled_from(WORLDS),
    new=st.sampled_from(WORLDS),
)
def test_ranks_may_be_in_different_epochs(
    data: st.DataObject, length: int, drop_last: bool, old: int, new: int
) -> None:
    """One may have begun the next epoch while others have items of the last: both go on, each position once."""
    ranks = [Rank(pipeline_of(source_of(rank, old, length, drop_last=drop_last))) for rank in range(old)]
    documents = []
    for rank in ranks:
        where = data.draw(st.sampled_from(["first", "both", "second"]))
        if where != "first":
            rank.consume(3, set(range(len(rank.left(3)))))
            draw_consumption(data, [rank], 4)
        else:
            draw_consumption(data, [rank], 3)
        documents.append(rank.document({"first": [3], "both": [3, 4], "second": [4]}[where]))
    live = {epoch["epoch"] for document in documents for epoch in document["sources"][0]["epochs"]}
    again = resumed(documents, new)
    for epoch in sorted(live):
        positions = [position for rank in ranks for position in rank.consumed.get(epoch, [])]
        for number, rank in enumerate(again):
            if epoch in rank.epochs:
                positions += rank.left(epoch)
            elif new == old and all(each["epoch"] < epoch for each in documents[number]["sources"][0]["epochs"]):
                positions += issue_order(rank.source, None)  # an epoch that it has still to begin
        assert len(positions) == len(set(positions))
        assert len(set(range(length)) - set(positions)) < (old + new if drop_last else 1)


def test_ranks_may_be_epochs_apart() -> None:
    """An epoch that one rank has behind it and another before it: only the other's positions are left."""
    ranks = [Rank(pipeline_of(source_of(rank, 2, 10))) for rank in range(2)]
    for epoch in (3, 4):
        ranks[1].consume(epoch, set(range(5)))
    documents = [ranks[0].document([3]), ranks[1].document([5])]
    again = resumed(documents, 3)
    assert {
        epoch: sorted(position for rank in again for position in rank.left(epoch)) for epoch in sorted(again[0].epochs)
    } == {3: [0, 2, 4, 6, 8], 4: [0, 2, 4, 6, 8], 5: list(range(10))}
    documents[1]["sources"][0]["epochs"][0]["epoch"] = 5000
    with pytest.raises(ResumeError, match=r"are 4997 epochs apart. Take their states at the same step"):
        resumed(documents, 3)


@cases(200)
@given(
    data=st.data(),
    length=st.integers(8, 60),
    drop_last=st.booleans(),
    worlds=st.lists(st.sampled_from(WORLDS), min_size=4, max_size=4),
)
def test_epochs_that_are_planned_have_not_begun(
    data: st.DataObject, length: int, drop_last: bool, worlds: list[int]
) -> None:
    """A run stops again before it comes to the next epoch, of which its state has positions already."""
    ranks = [Rank(pipeline_of(source_of(rank, worlds[0], length, drop_last=drop_last))) for rank in range(worlds[0])]
    consumed: dict[int, list[int]] = {3: [], 4: []}
    documents = []
    for rank in ranks:
        draw_consumption(data, [rank], 3)
        if data.draw(st.booleans()):  # it has issued all of the first epoch, and goes on with the second
            draw_consumption(data, [rank], 4)
            documents.append(rank.document([3, 4]))
        else:
            documents.append(rank.document([3]))
    for world in worlds[1:]:
        for rank in ranks:
            for epoch, positions in rank.consumed.items():
                consumed[epoch] += positions
        live = sorted({epoch["epoch"] for document in documents for epoch in document["sources"][0]["epochs"]})
        ranks = resumed(documents, world)
        documents = []
        for rank in ranks:
            # In another world each has the positions of both; in the same one, those that it had.
            epochs = sorted(rank.epochs)
            first = epochs[0]
            draw_consumption(data, [rank], first)
            documents.append(rank.document(epochs, entered=first))
    for rank in ranks:
        for epoch, positions in rank.consumed.items():
            consumed[epoch] += positions
    rest = resumed(documents, 5)
    for epoch in live:
        for rank in rest:
            if epoch in rank.epochs:
                consumed[epoch] += rank.left(epoch)
        assert len(consumed[epoch]) == len(set(consumed[epoch])), "a position is issued twice"
        missing = set(range(length)) - set(consumed[epoch])
        # Each world may drop less than a round of its own, where a rank has come to the end of the epoch.
        assert len(missing) <= (sum(world - 1 for world in (*worlds, 5)) if drop_last else 0)


def test_the_same_world_goes_on_as_it_was() -> None:
    """Each rank gets what it saved, also if they had not stopped at the same step."""
    documents = []
    for rank, high in enumerate((3, 9)):
        epochs = [{"epoch": 5, "high": high, "holes": [[1, 2]], "parts": {"1": [[0, 2]]}, "iterator": None}]
        documents.append(pipeline_of(source_of(rank, 2, 40, epochs=epochs), version=1))
    state = decode(resume.gather([encode(document) for document in reversed(documents)]), "a rank")
    assert [document_for(state, rank, 2) for rank in range(2)] == documents


def test_a_state_of_one_rank_is_for_this_rank() -> None:
    """In its own rank and world it is itself; elsewhere it is refused, unless all ranks have the same state."""
    document = pipeline_of(source_of(1, 4, 40))
    assert document_for(document, 1, 4) == document
    for rank, world in ((0, 4), (1, 5), (0, 1)):
        with pytest.raises(ResumeError, match=f"of rank 1 of 4 in rank {rank} of {world}: .* spdl.resume.gather"):
            document_for(document, rank, world)
    lockstep = pipeline_of(source_of(0, 4, 40, lockstep=True))
    assert document_for(lockstep, 3, 4) == pipeline_of(source_of(3, 4, 40, lockstep=True))
    with pytest.raises(ResumeError, match="of rank 0 of 4 in rank 3 of 5"):
        document_for(lockstep, 3, 5)
    unaware = pipeline_of(source_of(0, 1, 40))
    assert document_for(unaware, 3, 5) == unaware


def test_consumed_outputs_follow_their_positions() -> None:
    """Which outputs of a position have been consumed is known wherever the position goes."""
    documents = []
    for rank in range(2):
        epochs = [
            {"epoch": 0, "high": 6, "holes": [[2, 4]], "parts": {"2": [[0, 1]], "3.1": [[0, 5]]}, "iterator": None}
        ]
        documents.append(pipeline_of(source_of(rank, 2, 20, epochs=epochs)))
    found = {}
    state = decode(resume.gather([encode(document) for document in documents]), "a rank")
    for rank in range(3):
        (source,) = document_for(state, rank, 3)["sources"]
        epoch = source["epochs"][0]
        for path, done in epoch["parts"].items():
            local, dot, below = path.partition(".")
            assert int(local) in unconsumed(epoch, 0), "what has parts has been issued, and is not consumed"
            found[issue_order(source, source["epochs"][0])[int(local)], dot + below] = done
    # Global positions 4 and 5 are number 2 of ranks 0 and 1, and 6 and 7 number 3.
    assert found == {(4, ""): [[0, 1]], (5, ""): [[0, 1]], (6, ".1"): [[0, 5]], (7, ".1"): [[0, 5]]}


def test_a_billion_positions_cost_what_is_pending() -> None:
    """Documents stay small, and are made in the time of the pending positions."""
    documents = []
    for rank in range(8):
        high = 5 * 10**8 // 8 + rank * 10
        epochs = [{"epoch": 0, "high": high, "holes": [[high - 100, high]], "parts": {}, "iterator": None}]
        documents.append(pipeline_of(source_of(rank, 8, 10**9, epochs=epochs)))
    state = resume.gather([encode(document) for document in documents])
    shares = [document_for(decode(state, "a rank"), rank, 3) for rank in range(3)]
    assert all(len(encode(share)["spdl"]) < 20_000 for share in shares)
    ranks = [Rank(share) for share in shares]
    assert sum(len(issue_order(rank.source, rank.epochs[0])) for rank in ranks) == 10**9 - sum(
        document["sources"][0]["epochs"][0]["high"] - 100 for document in documents
    )
    # And again from there.
    again = resume.gather([encode(share) for share in shares])
    sizes = [len(encode(document_for(decode(again, "a rank"), rank, 8))["spdl"]) for rank in range(8)]
    assert max(sizes) < 20_000


def test_ranks_that_are_far_apart_are_refused() -> None:
    """Rather than written down position by position."""
    documents = []
    for rank, high in enumerate((0, 10**8)):
        epochs = [{"epoch": 0, "high": high, "holes": [], "parts": {}, "iterator": None}]
        documents.append(pipeline_of(source_of(rank, 2, 10**9, epochs=epochs)))
    state = decode(resume.gather([encode(document) for document in documents]), "a rank")
    with pytest.raises(ResumeError, match="Take their states at the same step"):
        document_for(state, 0, 3)
    assert document_for(state, 1, 2)["sources"] == documents[1]["sources"]


def test_what_is_dropped_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Once, by the first rank."""
    documents = [pipeline_of(source_of(rank, 2, 10, drop_last=True)) for rank in range(2)]
    for document in documents:
        document["sources"][0]["epochs"] = [{"epoch": 7, "high": 1, "holes": [], "parts": {}, "iterator": None}]
    state = decode(resume.gather([encode(document) for document in documents]), "a rank")
    with caplog.at_level(logging.INFO, "spdl.resume"):
        for rank in range(3):
            document_for(state, rank, 3)
    assert caplog.messages == [
        "epoch 7 does not divide among 3 ranks: its last 2 positions are dropped ([[8, 10]])",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "stateful"}, "it is stateful, and only positions of indexed sources"),
        ({"length": None}, "its length is not known"),
        (
            {"epochs": [{"epoch": 0, "high": 1, "holes": [], "iterator": {"position": 0}}]},
            "it has the state of an iterator",
        ),
    ],
)
def test_other_sources_cannot_be_distributed(change: dict[str, Any], message: str) -> None:
    """The source and the reason are named; in the same world they go on."""
    documents = [pipeline_of({**source_of(rank, 2, 10), **change}) for rank in range(2)]
    state = decode(resume.gather([encode(document) for document in documents]), "a rank")
    assert document_for(state, 1, 2)["sources"] == documents[1]["sources"]
    with pytest.raises(ResumeError, match=f"of 2 ranks in a world of 3: source 0: {message}"):
        document_for(state, 0, 3)


def test_other_kinds_of_states_keep_their_world() -> None:
    """What is not the state of a pipeline is not calculated with."""
    state = decode(resume.gather([encode({"kind": "loader", "rank": rank}) for rank in range(2)]), "a rank")
    assert document_for(state, 1, 2)["rank"] == 1
    with pytest.raises(ResumeError, match="states of a loader can be loaded only by as many ranks"):
        document_for(state, 1, 3)


def test_a_dropped_position_comes_back_without_its_consumed_parts() -> None:
    """Of position 4, the first output is consumed; two ranks drop it, and one rank has it again."""
    epochs = [{"epoch": 0, "high": 5, "holes": [[4, 5]], "parts": {"4": [[0, 1]]}, "iterator": None}]
    states = [pipeline_of(source_of(0, 1, 5, drop_last=True, epochs=epochs), version=1)]
    for world in (2, 1):
        gathered = decode(resume.gather([encode(document) for document in states]), "a rank")
        states = [document_for(gathered, rank, world) for rank in range(world)]
        (epoch,) = states[0]["sources"][0]["epochs"]
        assert (epoch["todo"], epoch["dropped"]) == (([], [[4, 5]]) if world == 2 else ([[4, 5, 1]], []))
    assert epoch["parts"] == {"0": [[0, 1]]}
