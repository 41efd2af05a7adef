"""benchmarks/scaling: the model, the lock that notes its times, and the pipelines. No time is asserted."""

import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks._contest.result import Result
from benchmarks._contest.session import Task
from benchmarks.scaling import _work
from benchmarks.scaling._cases import CONTEST, GIL, costs_of, make_cases
from benchmarks.scaling._held_lock import TimedLock
from benchmarks.scaling._model import Costs
from benchmarks.scaling._plot import draw
from benchmarks.scaling._session import Scaling

COSTS = Costs(cpu=100.0, gil=10.0, lock=2.0)


@pytest.mark.parametrize(
    ("cores", "has_gil", "rate"), [(1, True, 1e4), (2, True, 2e4), (64, True, 1e5), (64, False, 5e5), (10, False, 1e5)]
)
def test_what_is_held_bounds_the_rate(cores: int, has_gil: bool, rate: float) -> None:
    """Up to that bound, each core adds as much as the first."""
    assert COSTS.rate(cores, has_gil=has_gil) == pytest.approx(rate)


def test_the_bound_is_reached_when_it_is_held_all_the_time() -> None:
    """100 us of work for 10 us of the GIL, or for 2 us of the lock."""
    assert (COSTS.cores(), COSTS.cores(has_gil=False)) == (10, 50)


def test_an_interrupted_hold_counts_as_one_like_most() -> None:
    """The thread had lost its core."""
    lock = TimedLock(threading.Lock())
    lock.holds = [1e-6, 1e-6, 3e-6, 5e-3]
    assert lock.held() == pytest.approx(7e-6)


def test_each_hold_of_the_lock_is_noted() -> None:
    """By ``with`` and by its methods, and it excludes others."""
    lock = TimedLock(threading.Lock())
    with lock:
        assert lock.locked()
        assert not lock.acquire(blocking=False)
    assert lock.acquire()
    lock.release()
    assert len(lock.holds) == 2
    assert not lock.locked()


def test_a_turn_has_all_costs() -> None:
    """Those of the model, and wall time on one core and on two."""
    session = Scaling(_work, Task("items", {"paths": [], "num_items": 40}))
    assert session.outputs() == {"total": [sum(range(40))]}
    assert set(session.measure()) == {"one_us", "two_us", "cpu_us", "gil_us", "lock_us"}


def test_bars_are_about_cases_that_exist(tmp_path: Path) -> None:
    """And costs of a case that was not measured are not made up."""
    names = {case.name for case in make_cases(tmp_path, True)}
    assert {name for required in CONTEST.required for name in required.cases()} <= names
    result = Result(
        {"cases": [{"name": "items", "costs": {GIL: {"cpu_us": [9.0], "gil_us": [9.0], "lock_us": [2.0]}}}]}
    )
    assert costs_of(result, "items", GIL) == Costs(9.0, 9.0, 2.0)
    assert costs_of(result, "images", GIL) is None


def test_the_picture_has_two_lines_for_each_case() -> None:
    """With the GIL and without."""
    root = ElementTree.fromstring(draw({"items": COSTS, "batches": Costs(800.0, 5.0, 1.0)}))
    lines = list(root.iter("{http://www.w3.org/2000/svg}path"))
    assert [each.attrib["class"] for each in lines] == ["gil", "free"] * 2
