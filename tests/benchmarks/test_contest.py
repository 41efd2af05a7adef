"""The runner that all benchmarks share: turns, what is stored, figures and options. Nothing real is measured."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks._contest.columns import Likeness, Median, Once, Rate, RatioTo, Share, Spread, round_ratios
from benchmarks._contest.contest import Case, Contest, MoreRounds, OutputMismatch, Outputs, Peer
from benchmarks._contest.required import Ratio
from benchmarks._contest.result import Result
from benchmarks._contest.running import run

COUNTING = "tests.benchmarks.counting"


def contest(cases: Sequence[Case], *peers: Peer, **options: Any) -> Contest:
    """Of ours and these peers."""
    return Contest(
        name="counting",
        question="?",
        ours="ours",
        unit="a turn",
        peers=[Peer("ours", COUNTING), *peers],
        make_cases=lambda folder, is_quick: cases,
        sessions=COUNTING,
        **{"rounds": 3, **options},
    )


def case(name: str = "one", **options: Any) -> Case:
    return Case(name, name.title(), **{"data": {"size": 7}, **options})


def result_of(of: Contest, tmp_path: Path, *arguments: str, code: int = 0) -> Result:
    path = tmp_path / "result.json"
    assert run(of, ["--json", str(path), *arguments]) == code
    return Result(json.loads(path.read_text(encoding="utf-8")))


def test_every_number_of_every_turn_is_stored(tmp_path: Path) -> None:
    """By peer and name; rounds that warm up are left out, and what is measured once is apart."""
    theirs = Peer("theirs", COUNTING, settings={"factor": 10})
    result = result_of(contest([case()], theirs, warm_up=1), tmp_path)
    assert result.values("one", "ours", "wall_us") == [2, 3, 4]
    assert result.values("one", "theirs", "wall_us") == [20, 30, 40]
    assert result.values("one", "ours", "each") == [2, 2, 3, 3, 4, 4]
    assert result.values("one", "ours", "choice") == ["x"] * 3
    assert (result.once("one", "ours", "size"), result.once("one", "ours", "turns")) == (7, 4)


def test_rounds_are_those_of_the_case_unless_they_are_given(tmp_path: Path) -> None:
    """A trial run has two at most, and leaves out what is not for it."""
    cases = [case(), case("two", rounds=5), case("slow", rounds=1, is_quick=False)]

    def rounds(*arguments: str) -> dict[str, int]:
        result = result_of(contest(cases), tmp_path, *arguments)
        return {name: len(result.values(name, "ours", "wall_us")) for name in result.cases}

    assert rounds() == {"one": 3, "two": 5, "slow": 1}
    assert rounds("--rounds", "4") == {"one": 4, "two": 4, "slow": 4}
    assert rounds("--quick") == {"one": 2, "two": 2}
    assert rounds("--quick", "--cases", "s*,two") == {"two": 2, "slow": 1}


def test_turns_that_differ_get_more_rounds(tmp_path: Path) -> None:
    """Up to a maximum, while there is time; not if the number of rounds is given."""
    more = MoreRounds(most=5, is_unsure=lambda costs: max(costs["wall_us"]) < 4, seconds=100.0)
    for arguments, seconds, rounds in (((), 100.0, 4), ((), 0.0, 3), (("--rounds", "2"), 100.0, 2)):
        options = MoreRounds(more.most, more.is_unsure, seconds)
        result = result_of(contest([case()], more_rounds=options), tmp_path, *arguments)
        assert len(result.values("one", "ours", "wall_us")) == rounds


def test_peers_take_part_where_they_may_and_can(tmp_path: Path) -> None:
    """A case names its peers, and a peer may be unable."""
    peers = Peer("unable", COUNTING, settings={"unable": "one"}), Peer("other", COUNTING)
    result = result_of(contest([case(), case("two", peers=("ours", "unable"))], *peers), tmp_path)
    assert (result.peers_of("one"), result.peers_of("two")) == (["ours", "other"], ["ours", "unable"])


def test_case_that_wants_to_be_alone_has_a_process_for_each_turn(tmp_path: Path) -> None:
    """Others keep theirs from turn to turn."""
    result = result_of(contest([case(), case("alone", is_alone=True)]), tmp_path)
    assert [len(set(result.values(name, "ours", "pid"))) for name in result.cases] == [1, 3]


def _never(name: str, standard: Outputs, outputs: Outputs) -> float | None:
    raise OutputMismatch(f"{name} is unlike")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "theirs does not do the work of 'one': value is"),
        ({"check": lambda outputs: "it is wrong"}, "ours does not do the work of 'one': it is wrong"),
        ({"likeness": _never}, "ours is unlike"),
    ],
    ids=["other", "wrong", "unlike"],
)
def test_wrong_output_stops_the_run(options: Any, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Compared with the standard, with what is known, or by likeness."""
    theirs = Peer("theirs", COUNTING, settings={"output": 2})
    assert run(contest([case(**options)], theirs), ["--quick"]) == 2
    assert told in capsys.readouterr().err


def test_likeness_is_stored_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of peers whose output is only similar."""
    theirs = Peer("theirs", COUNTING, settings={"output": 2})
    similar = case(likeness=lambda name, standard, outputs: 31.0 if name == "theirs" else None,
                   columns=(Spread("µs", "wall_us"), Likeness("dB")))  # fmt: skip
    result = result_of(contest([similar], theirs), tmp_path)
    assert (result.likeness("one", "theirs"), result.likeness("one", "ours")) == (31, None)
    assert "| theirs | 2 (1 to 3) | 31.0 |" in capsys.readouterr().out


def test_columns_are_of_rounds() -> None:
    """Ratios are of the same round; what was not measured is a dash."""
    costs = {
        "ours": {"wall_us": [1.0, 2.0, 4.0], "cpu_us": [2.0, 2.0, 2.0], "pss": 5e6},
        "theirs": {"wall_us": [3, 4, 20]},
    }
    result = Result({"cases": [{"name": "one", "costs": costs}]})
    columns = (Spread("", "wall_us"), Median("", "cpu_us", 1e-3), Once("", "pss", 1e-6), Rate(""), RatioTo("", "ours"))
    assert [column.cell(result, "one", "theirs") for column in columns] == [
        "4 (3 to 20)", "—", "—", "250000 (50000 to 333333)", "3 (2 to 5)",
    ]  # fmt: skip
    assert Share("", "wall_us", "cpu_us").cell(result, "one", "ours") == "1 (0.50 to 2)"
    assert [column.cell(result, "one", "ours") for column in columns[1:3]] == ["0.00", "5"]
    assert round_ratios([1.0, 2.0], [0.0, 4.0]) == [0.5]


def test_requirements_apply_to_chosen_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a run of all cases, those that could not be measured are missed."""
    required = [Ratio(name, (name, "theirs"), (name, "ours"), 10) for name in ("one", "two")]
    theirs = Peer("theirs", COUNTING, settings={"factor": 10})
    both = contest([case(), case("two", peers=("ours",))], theirs, required=required)
    result = result_of(both, tmp_path, "--require", code=1)
    assert [figure["verdict"] for figure in result.stored["figures"]] == ["PASS", "NOT MEASURED"]
    assert "requirements not met: two (NOT MEASURED)" in capsys.readouterr().err
    assert len(result_of(both, tmp_path, "--require", "--cases", "one").stored["figures"]) == 1


def test_inputs_of_other_cases_are_not_made(tmp_path: Path) -> None:
    """They may take time."""

    def fail() -> dict[str, Any]:
        raise AssertionError("made")

    result_of(contest([case(), case("two", data=fail)]), tmp_path, "--cases", "one")


def test_what_publishing_needs_is_checked_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Only in a run whose result will be published."""
    needy = contest([case()], find_missing=lambda: "a pencil is missing", publish=lambda result: None)
    assert run(needy, []) == 2
    assert "a pencil is missing, or store the result elsewhere with --json" in capsys.readouterr().err
    assert run(needy, ["--quick"]) == 0
