"""``resume.skip``: which positions are left out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl import resume
from spdl.resume import ResumeError
from spdl.resume._document import decode, encode
from spdl.resume._elastic import issue_order, unconsumed
from tests.strategies.profiles import cases

from .test_elastic import pipeline_of, source_of

STAGES: list[Any] = [["source", "list", 100], ["pipe", "decode"], ["aggregate", 4, True], ["sink", 3]]


def batches_of(document: dict[str, Any], size: int, drop_last: bool) -> list[list[int]]:
    """The positions of the batches that a pipeline makes which goes on from a document."""
    (source,) = document["sources"]
    found = []
    for epoch in source["epochs"]:
        order = issue_order(source, epoch)
        left = [order[local] for local in unconsumed(epoch, len(order))]
        batches = [left[place : place + size] for place in range(0, len(left), size)]
        if drop_last and batches and len(batches[-1]) < size:
            del batches[-1]
        found += batches
    return found


@cases(200)
@given(
    length=st.integers(1, 60),
    size=st.integers(1, 7),
    drop_last=st.booleans(),
    data=st.data(),
)
def test_skipped_batches_are_not_made_and_the_others_are(
    length: int, size: int, drop_last: bool, data: st.DataObject
) -> None:
    """Over two epochs of which the first has pending positions."""
    high = data.draw(st.integers(0, length))
    done = data.draw(st.integers(0, high))
    epochs = [{"epoch": 0, "high": length, "holes": [[done, high]] if done < high else [], "parts": {}}]
    epochs.append({"epoch": 1, "high": high, "holes": [], "parts": {}})
    document = pipeline_of(source_of(0, 1, length, epochs=epochs))
    document["fingerprint"] = [["source"], ["aggregate", size, drop_last]]
    expected = batches_of(document, size, drop_last)
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    skipped = range(start, stop, data.draw(st.integers(1, 3)))
    found = decode(resume.skip(encode(document), batches=skipped), "it")
    assert batches_of(found, size, drop_last) == [
        batch for number, batch in enumerate(expected) if number not in skipped
    ]


def test_all_ranks_skip_the_same_numbers() -> None:
    """Of a gathered state, which can still be loaded in another world."""
    documents = [pipeline_of(source_of(rank, 2, 100), fingerprint=STAGES) for rank in range(2)]
    state = resume.skip(resume.gather([encode(each) for each in documents]), batches=range(1, 3))
    for rank, document in enumerate(decode(state, "it")["states"]):
        assert batches_of(document, 4, True)[:2] == [
            [rank + 2 * local for local in range(4)],
            [rank + 2 * local for local in range(12, 16)],
        ]


def test_consumed_outputs_of_skipped_positions_are_forgotten() -> None:
    """Those of the others stay."""
    epochs = [{"epoch": 0, "high": 8, "holes": [[0, 8]], "parts": {"1": [[0, 1]], "5.0": [[0, 1]]}}]
    state = encode(pipeline_of(source_of(0, 1, 100, epochs=epochs), fingerprint=STAGES))
    (source,) = decode(resume.skip(state, batches=range(1)), "it")["sources"]
    assert source["epochs"] == [{"epoch": 0, "high": 8, "holes": [[4, 8]], "parts": {"5.0": [[0, 1]]}}]


def test_a_billion_positions_are_skipped_at_once() -> None:
    """In the time of a few ranges."""
    state = encode(pipeline_of(source_of(0, 1, 10**10), fingerprint=STAGES))
    (source,) = decode(resume.skip(state, batches=range(10, 10**9)), "it")["sources"]
    assert source["epochs"][0]["high"] == 4 * 10**9
    assert source["epochs"][0]["holes"] == [[0, 40]]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "cache"}, "it is the state of a cache"),
        (pipeline_of(fingerprint=STAGES), "it has 0 sources"),
        (pipeline_of({**source_of(0, 1, 9), "kind": "iterable"}, fingerprint=STAGES), "its source is iterable"),
        (
            pipeline_of({**source_of(0, 1, 9), "length": None}, fingerprint=STAGES),
            "the length of its source is not known",
        ),
        (pipeline_of(source_of(0, 1, 9), fingerprint=STAGES[:2]), "it has 0 stages that make batches"),
        (pipeline_of(source_of(0, 1, 9), fingerprint=STAGES + STAGES[2:3]), "it has 2 stages that make batches"),
        (pipeline_of(source_of(0, 1, 9), fingerprint=[["aggregate", "LengthBuckets"]]), "it has a stage 'aggregate'"),
        (pipeline_of(source_of(0, 1, 9), fingerprint=[*STAGES, ["merge", []]]), "it has a stage 'merge'"),
        (pipeline_of(source_of(0, 1, 9), fingerprint=[1]), "its stages cannot be read"),
        (pipeline_of(source_of(0, 1, 9), fingerprint=STAGES), "its epochs have 2 batches left, and number 5 is not"),
    ],
)
def test_other_pipelines_are_refused(document: dict[str, Any], message: str) -> None:
    """Where the positions of a batch cannot be known, or there is no such batch."""
    with pytest.raises(ResumeError) as caught:
        resume.skip(encode(document), batches=range(2, 6))
    assert str(caught.value).startswith("cannot skip batches of this state: ")
    assert message in str(caught.value)


def test_batches_are_a_range() -> None:
    """Which ascends."""
    state = encode(pipeline_of(source_of(0, 1, 10**10), fingerprint=STAGES))
    with pytest.raises(TypeError, match="batches must be a range, got 3 of type int"):
        resume.skip(state, batches=3)  # type: ignore[arg-type]  # the point
    for bad in (range(-1, 3), range(5, 0, -1)):
        with pytest.raises(ValueError, match="must be a range that ascends from >= 0"):
            resume.skip(state, batches=bad)
    (source,) = decode(resume.skip(state, batches=range(0)), "it")["sources"]
    assert source["epochs"][0]["high"] == 0
