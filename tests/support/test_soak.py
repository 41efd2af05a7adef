"""The amount of testing: small in ``make test``, more and new inputs in each round of a soak."""

import pytest

from tests.support.child import run_child

_SCRIPT = """
from tests.support.soak import SEED, amount, is_over, is_soaking, seeds
print(is_soaking(), SEED, amount(1, soak=3), *seeds(1, soak=3), is_over())
"""
_LAW = """
from hypothesis import given, strategies
from tests.strategies.profiles import cases

seen = []

@cases(40)
@given(strategies.integers())
def law(number):
    seen.append(number)

law()
print(len(seen), law.num_cases, sum(seen))
"""


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "False 0 1 0 False"),
        ({"SPDL_SOAK": "0"}, "True 0 3 0 1 2 False"),
        ({"SPDL_SOAK": "7"}, "True 7 3 7000 7001 7002 False"),
        ({"SPDL_SOAK": "7", "SPDL_SOAK_SECONDS": "0"}, "True 7 3 7000 7001 7002 True"),
    ],
    ids=str,
)
def test_a_round_says_what_it_tries(variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variables that ``scripts/soak`` sets."""
    for name in ("SPDL_SOAK", "SPDL_SOAK_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    run_child(_SCRIPT).check(said)


def test_laws_are_tried_on_more_and_on_other_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same ones for the same seed."""
    monkeypatch.delenv("SPDL_SOAK", raising=False)
    outputs = [run_child(_LAW).stdout]
    for seed in ("0", "0", "5", "5"):
        monkeypatch.setenv("SPDL_SOAK", seed)
        outputs.append(run_child(_LAW).stdout)
    assert [output.split()[:2] for output in outputs] == [["15", "15"], *[["40", "40"]] * 4]
    assert outputs[1] == outputs[2] != outputs[3] == outputs[4]
