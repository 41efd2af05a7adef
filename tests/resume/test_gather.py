"""``resume.gather``: which states belong together, and what torch's collective call does with them."""

from typing import Any

import pytest

from spdl import resume
from spdl.resume import ResumeError
from spdl.resume._document import decode, encode
from tests.support.child import run_child

from .test_elastic import pipeline_of, source_of


def states_of(*documents: dict[str, Any]) -> list[dict[str, str]]:
    return [encode(document) for document in documents]


def epoch_of(high: int, *holes: list[int], **others: Any) -> dict[str, Any]:
    return {"epoch": 0, "high": high, "holes": list(holes), "parts": {}, "iterator": None, **others}


def test_order_of_ranks_is_found() -> None:
    """The states may be given in any order."""
    documents = [pipeline_of(source_of(rank, 3, 10)) for rank in range(3)]
    expected = resume.gather(states_of(*documents))
    assert resume.gather(states_of(documents[2], documents[0], documents[1])) == expected
    assert [state["sources"][0]["rank"] for state in decode(expected, "a rank")["states"]] == [0, 1, 2]


def test_ranks_that_read_the_same_count_once() -> None:
    """As those of tensor parallelism do; how far each has read ahead makes no difference."""
    ahead = [epoch_of(5), epoch_of(9, [5, 9]), epoch_of(6, [5, 6])]
    documents = [pipeline_of(source_of(rank, 2, 40, epochs=[epoch])) for rank in range(2) for epoch in ahead]
    assert len(decode(resume.gather(states_of(*documents)), "a rank")["states"]) == 2
    unaware = [pipeline_of(source_of(0, 1, 40, epochs=[epoch])) for epoch in ahead]
    assert len(decode(resume.gather(states_of(*unaware)), "a rank")["states"]) == 1
    with pytest.raises(ResumeError, match=r"there are two of rank 1 of 2, which differ. Take them at the same step"):
        resume.gather(states_of(*documents, pipeline_of(source_of(1, 2, 40, epochs=[epoch_of(6)]))))
    with pytest.raises(ResumeError, match="the sources know of no ranks, and the states number 0 and 1 differ"):
        resume.gather(states_of(unaware[0], pipeline_of(source_of(0, 1, 40, epochs=[epoch_of(6)]))))


def test_one_process_has_one_rank() -> None:
    """Without torch, or without a process group, the state alone is gathered."""
    document = pipeline_of(source_of(0, 1, 10), version=1)
    assert decode(resume.gather(encode(document)), "a rank")["states"] == [document]
    with pytest.raises(ResumeError, match=r"of a world of 4, and that of rank 1 is missing"):
        resume.gather(encode(pipeline_of(source_of(0, 4, 10))))


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "there are none"),
        (None, "got an object of type NoneType"),
        ("spdl", "got an object of type str"),
        ([None], "cannot read the state of number 0 of 1"),
        ([{"spdl": ""}], "cannot read the state of number 0 of 1"),
        (states_of({"kind": "a"}, {"kind": "b"}), "number 0 is of a a, number 1 of a b"),
        ([resume.gather(states_of({"kind": "a"}))], "is the result of gather() already"),
        (states_of(pipeline_of(source_of(1, 2, 9))), "of a world of 2, and that of rank 0 is missing"),
        (
            states_of(pipeline_of(), pipeline_of(fingerprint=[["source"], ["pipe", "decode"]])),
            "number 0 and number 1 are of different pipelines: stage 1 is pipe decode and was not there",
        ),
        (states_of(pipeline_of(source_of(0, 2, 9)), pipeline_of()), "are of different pipelines"),
        (
            states_of(pipeline_of(source_of(0, 2, 9)), pipeline_of(source_of(1, 2, 8))),
            "source 0 has the length 9 in number 0 and 8 in number 1",
        ),
        (
            states_of(pipeline_of(source_of(0, 2, 9), source_of(1, 2, 9))),
            "the sources of number 0 have different ranks and worlds: rank 0 of 2, rank 1 of 2",
        ),
    ],
)
def test_states_that_do_not_belong_together_are_refused(states: Any, message: str) -> None:
    """With the numbers of those that do not."""
    with pytest.raises(ResumeError) as caught:
        resume.gather(states)
    assert message in str(caught.value)


TWO_RANKS = """
    import os, sys
    import torch.distributed as dist
    from spdl import resume
    from spdl.resume._document import decode, encode
    from tests.resume.test_elastic import pipeline_of, source_of

    def main(rank, path):
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
        own = encode(pipeline_of(source_of(rank, 2, 10)))
        state = resume.gather(own)
        everyone = [None, None]
        dist.all_gather_object(everyone, state)
        states = [encode(pipeline_of(source_of(r, 2, 10))) for r in (1, 0)]
        assert everyone == [state, state] == [resume.gather(states)] * 2
        # One that is damaged fails on both ranks, rather than leave one of them waiting.
        try:
            resume.gather(own if rank == 0 else {"spdl": object()})
        except resume.ResumeError as exc:
            assert "of number 1 of 2" in str(exc), exc
        else:
            raise AssertionError(rank)
        alone = dist.new_group([0])
        if rank == 0:
            assert len(decode(resume.gather(encode(pipeline_of(source_of(0, 1, 9))), group=alone), "it")["states"]) == 1
        dist.barrier()
        dist.destroy_process_group()

    if __name__ == "__main__":
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            pid = os.fork()
            main(int(pid == 0), folder + "/meeting")
            if pid == 0:
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        print("done")
"""


@pytest.mark.slow
def test_all_ranks_get_the_same_state() -> None:
    """With torch's process group, in two processes."""
    pytest.importorskip("torch")
    run_child(TWO_RANKS).check("done")
