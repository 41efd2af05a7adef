"""benchmarks/placement: the ways give the same, and what is shown is what was measured. No time is asserted here."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks._contest.client import Client
from benchmarks._contest.environments import CHECKOUT
from benchmarks.placement._main import BATCH, TITLES, WAYS, main
from benchmarks.placement._report import row_of


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three small pictures that differ."""
    folder = tmp_path_factory.mktemp("photos")
    noise = np.random.default_rng(0)
    for number in range(3):
        Image.fromarray(noise.integers(0, 255, (60, 80, 3), np.uint8)).save(folder / f"{number}.jpg")
    return sorted(map(str, Path(folder).iterdir()))


@pytest.mark.slow
def test_every_way_gives_the_same_batches(photos: list[str]) -> None:
    """In each epoch, of each pipeline; and each can be timed, with training and without."""
    given = {}
    for way in WAYS:
        with Client(way, CHECKOUT, "benchmarks.placement._worker", way) as client:
            for case in TITLES:
                client.ask("open", case=case, paths=photos, num_batches=3)
                given[way, case] = client.ask("digest")
                assert len(given[way, case]) == 3
                assert client.ask("digest") == given[way, case]
                assert client.ask("time", is_training=False, num_ahead=1)["stepping"] == 0
                assert client.ask("time", is_training=True, num_ahead=1)["stepping"] > 0
            assert client.ask("memory", num_batches=3) >= 0
            client.ask("close")
    for case in TITLES:
        assert {str(given[way, case]) for way in WAYS} == {str(given[WAYS[0], case])}


def test_names_agree_with_the_workers() -> None:
    """The process that measures imports nothing of what it measures, so it has names of its own."""
    from benchmarks.placement import _work

    assert (tuple(TITLES), WAYS, BATCH) == (tuple(_work.OPS), _work.WAYS, _work.BATCH)


def test_source_gives_whole_batches_going_round() -> None:
    """However few files there are."""
    from benchmarks.placement._work import Batches

    [first, second] = Batches(("a", "b", "c"), 2)
    assert (len(first), len(second)) == (BATCH, BATCH)
    assert first[:4] == ["a", "b", "c", "a"]
    assert second[0] == "abc"[BATCH % 3]


def test_row_says_how_much_longer_a_step_takes() -> None:
    """Against steps with nothing beside them, of the same round; rates are for samples."""
    idle = [{"wall": 1.0, "cpu": 0.5, "stepping": 0.0}, {"wall": 2.0, "cpu": 0.5, "stepping": 0.0}]
    training = [
        {"wall": 4.0, "cpu": 0.5, "stepping": 3.0, "without_python": 2.0},
        {"wall": 4.0, "cpu": 0.5, "stepping": 2.0, "without_python": 0.0},
    ]
    row = row_of("threads", 1000, idle=idle, training=training, steps=[1.0, 2.0], pss=5_000_000)
    assert (row["rate"], row["rate_min"], row["rate_max"]) == (750, 500, 1000)
    assert (row["slowdown"], row["slowdown_min"], row["slowdown_max"]) == (2, 1, 3)
    assert row["without_python"] == 1
    assert (row["trainer_cpu_s_per_1000"], row["rate_training"], row["pss_mb"]) == (0.5, 250, 5)


def test_unknown_way_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists those there are."""
    with pytest.raises(SystemExit):
        main(["--ways", "nonesuch"])
    assert "there are: threads, subprocess, region" in capsys.readouterr().err
