"""benchmarks/resume: what is compared is the same, and figures are those that it requires. No time is asserted."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks.engine._shapes import SHAPES
from benchmarks.resume._cases import CONTEST, FAR, check_batch, check_draws, check_pending, check_steps, make_cases
from benchmarks.resume.adapters import spdl_pipeline

CASES = {case.name: case for case in make_cases(Path(), True)}


def trial(path: Path, cases: str, peers: str) -> Result:
    assert run(CONTEST, ["--quick", "--rounds", "1", "--cases", cases, "--peers", peers, "--json", str(path)]) == 0
    return Result(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_pipelines_states_and_numbers_are_measured(tmp_path: Path) -> None:
    """Outputs are compared before; a state has a size, a first batch is timed more than once."""
    cases = "source_sink,state-apart,first,rng-*"
    result = trial(tmp_path / "result.json", cases, "spdl,spdl-off")
    assert result.peers_of("source_sink") == result.peers_of("first") == ["spdl", "spdl-off"]
    assert result.peers_of("state-apart") == ["spdl"]
    [size] = result.values("state-apart", "spdl", "bytes")
    assert size < 16384
    assert len(result.values("first", "spdl", "ms")) == 2
    assert [len(result.values(name, "spdl", "wall_us")) for name in ("rng-seed", "rng-numpy")] == [1, 1]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.usefixtures("forked_workers")
def test_a_loader_is_asked_at_each_step_or_never(tmp_path: Path) -> None:
    """Only the time of one that is asked has a part for it."""
    result = trial(tmp_path / "result.json", "steps-thread", "loader,loader-off")
    assert len(result.values("steps-thread", "loader", "ask_us")) == 1
    assert result.values("steps-thread", "loader-off", "ask_us") == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("is_resuming", [False, True])
def test_pipelines_emit_each_item_once(is_resuming: bool, shape: object) -> None:
    """Resumable or not, they do the work of the shape."""
    emitted = spdl_pipeline.make(shape, {"is_resuming": is_resuming})(100, list)  # type: ignore[arg-type]
    items = [item for each in emitted for item in (each if isinstance(each, list) else [each])]
    assert sorted(items) == list(range(100))


def test_other_outputs_are_refused() -> None:
    """Items that are lost or come twice, a batch from elsewhere, numbers that are not those of the index."""
    pending = np.arange(FAR, FAR + 2000, 2)
    assert check_pending(2, {"items": pending}) is None
    assert "it goes on with" in str(check_pending(2, {"items": pending[1:]}))
    whole = np.arange(8)
    assert check_steps(8, {"whole": whole, "parts": whole}) is None
    assert "(parts) has 7 items" in str(check_steps(8, {"whole": whole, "parts": whole[1:]}))
    assert check_batch(100, {"first": np.arange(32)}) is None
    assert "first batch" in str(check_batch(30, {"first": np.arange(32)}))
    assert check_draws({"once": np.array([1, 2]), "again": np.array([1, 2])}) is None
    assert "then" in str(check_draws({"once": np.array([1, 2]), "again": np.array([2, 1])}))
    assert "same for several" in str(check_draws({"once": np.array([1, 1]), "again": np.array([1, 1])}))


def test_each_requirement_has_its_cases() -> None:
    """It names a case that there is, and peers that take part in it."""
    for required in CONTEST.required:
        for of in (getattr(required, "of"), getattr(required, "over", None)):  # noqa: B009 - a protocol has neither
            if of is not None:
                assert of[1] in (CASES[of[0]].peers or ())
