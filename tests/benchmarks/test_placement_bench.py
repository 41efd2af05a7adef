"""benchmarks/placement: the ways give the same, and what is shown is what was measured. No time is asserted here."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks.placement import _cases
from benchmarks.placement._cases import COLUMNS, CONTEST, TITLES, WAYS


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three small pictures that differ."""
    folder = tmp_path_factory.mktemp("photos")
    noise = np.random.default_rng(0)
    for number in range(3):
        Image.fromarray(noise.integers(0, 255, (60, 80, 3), np.uint8)).save(folder / f"{number}.jpg")
    return sorted(map(str, Path(folder).iterdir()))


@pytest.mark.slow
@pytest.mark.parametrize("case", TITLES)
def test_every_way_gives_the_same_batches_and_can_be_timed(
    case: str, photos: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each pipeline, with training and without."""
    monkeypatch.setattr(_cases, "make_photos", lambda kind, count: photos)
    monkeypatch.setattr(_cases, "NUM_AHEAD", 1)
    path = tmp_path / "result.json"
    assert run(CONTEST, ["--quick", "--cases", case, "--rounds", "1", "--json", str(path)]) == 0
    result = Result(json.loads(path.read_text(encoding="utf-8")))
    for way in WAYS:
        for name in ("wall_us", "training_us", "alone_us", "step_us"):
            [value] = result.values(case, way, name)
            assert value > 0
        assert result.once(case, way, "pss") is not None


def test_cases_are_the_ops() -> None:
    """The process that measures imports nothing of what it measures, so it has names of its own."""
    from benchmarks.placement import _work

    assert tuple(TITLES) == tuple(_work.OPS)


def test_source_gives_whole_batches_going_round() -> None:
    """However few files there are."""
    from benchmarks.placement._work import BATCH, Batches

    [first, second] = Batches(("a", "b", "c"), 2)
    assert (len(first), len(second)) == (BATCH, BATCH)
    assert first[:4] == ["a", "b", "c", "a"]
    assert second[0] == "abc"[BATCH % 3]


def test_step_is_compared_with_one_of_the_same_round() -> None:
    """Against steps with nothing beside them; rates are for samples."""
    costs = {"wall_us": [1000.0, 2000.0], "alone_us": [1.0, 2.0], "step_us": [3.0, 2.0], "pss": 5_000_000}
    result = Result({"cases": [{"name": "photos", "costs": {"threads": costs}}]})
    cells = {column.title: column.cell(result, "photos", "threads") for column in COLUMNS}
    assert cells["samples/s (min to max)"] == "750 (500 to 1000)"
    assert cells["a training step, times as long (min to max)"] == "2 (1 to 3)"
    assert cells["memory, MB"] == "5"


def test_unknown_way_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists those there are."""
    with pytest.raises(SystemExit):
        run(CONTEST, ["--peers", "nonesuch"])
    assert "there are: threads, subprocess, region" in capsys.readouterr().err
