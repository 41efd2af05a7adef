"""benchmarks/images: like is compared with like, and what is required can be measured. No time is asserted here."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks._contest.contest import OutputMismatch
from benchmarks._contest.figures import Figure
from benchmarks._contest.required import Ratio
from benchmarks._contest.result import Result
from benchmarks._contest.session import Task
from benchmarks.images import _session
from benchmarks.images._cases import CONTEST, WORKS, likeness, make_cases
from benchmarks.images._compare import ALIKE_DB, likeness_of
from benchmarks.images._held import measure_held
from benchmarks.images._peers import DRAWS, OURS, PEERS, READS_FILES, settings_of
from benchmarks.images._required import HELD_CASES
from benchmarks.images._work import MEAN, STD, Photo, Work, work_of
from benchmarks.images.adapters import _canvas

CASES = {case.name: case for case in make_cases(Path(), True)}


def work_in(name: str, case: str) -> Work | None:
    """The work of a peer in a case."""
    return work_of(WORKS[case][2], settings_of(name))


def test_required_figures_name_peers_that_take_part() -> None:
    """A figure that can never be measured would never be missed."""
    assert set(READS_FILES) | set(DRAWS) <= {peer.name for peer in PEERS}
    for required in CONTEST.required:
        assert set(required.cases()) <= set(CASES)
        if isinstance(required, Ratio):
            for case, peer, *_ in (required.of, required.over):
                assert work_in(peer, case) is not None
                assert peer in (CASES[case].peers or ())
    assert {f"{name}-held" for name in HELD_CASES} <= set(CASES)


def test_ours_done_otherwise_takes_no_part_where_the_case_says_the_same() -> None:
    """The rows that say what float32 and a second thread bring are in the cases of those only."""

    def taking_part(case: str) -> set[str]:
        invited = CASES[case].peers
        assert invited is not None
        return {peer.name for peer in PEERS if peer.settings and peer.name in invited and work_in(peer.name, case)}

    assert taking_part("web-eval-uint8") == {"spdl-reuse"}
    assert taking_part("web-eval-float32") == {"spdl-reuse", "spdl-uint8"}
    assert taking_part("web-train-float32-2") == {"spdl-reuse", "spdl-uint8", "spdl-1"}
    assert work_in("spdl-1", "fit-2") == WORKS["fit"][2]


def figures_of(case: str, **costs: dict[str, list[float]]) -> dict[str, Figure]:
    """The figures of a case by title."""
    result = Result({"cases": [{"name": case, "costs": costs}]})
    figures = [required.measured(result) for required in CONTEST.required if case in required.cases()]
    return {figure.title: figure for figure in figures}


def test_ratios_are_of_the_same_round() -> None:
    """The median of the ratios is judged, the fastest rival has a figure of its own, who is missing is not passed."""
    case = "web-eval-uint8"
    walls = {OURS: [1, 2, 4], "pillow": [3, 4, 20], "opencv": [2, 2, 4], "planes": [1, 1, 1]}
    figures = figures_of(case, **{peer: {"wall_us": list(map(float, wall))} for peer, wall in walls.items()})
    pillow = figures[f"{case}: pillow over ours"]
    assert (pillow.measured, pillow.spread, pillow.verdict) == (3, (2, 5), "PASS")
    planes = figures[f"{case}: planes over ours"]
    assert (planes.measured, planes.verdict) == (0.5, "MISS")
    assert figures[f"{case}: reference over ours"].verdict == "NOT MEASURED"
    fastest = figures[f"{case}: fastest that reads files (opencv)"]
    assert (fastest.measured, fastest.verdict) == (1, "MISS")
    [alone] = [figure for title, figure in figures_of(case).items() if "fastest" in title]
    assert alone.verdict == "NOT MEASURED"


def test_share_of_python_is_the_median_of_the_rounds() -> None:
    """At the limit it is missed. Rounds on a machine that was not free do not count; where all are, nothing does."""

    def figure_of(*held: tuple[float, float]) -> Figure:
        costs = {
            "wall_s": [1.0] * len(held),
            "held_s": [share for share, _ in held],
            "held_at_most_s": [at_most for _, at_most in held],
        }
        [figure] = figures_of("web-eval-uint8-held", spdl=costs).values()
        return figure

    busy = (0.0, 3.0)
    figure = figure_of((0.01, 0.06), (0.02, 0.07), (0.25, 0.30), busy)
    assert (figure.measured, figure.spread, figure.verdict) == (2, (1, 30), "MISS")
    assert figure_of((0.01, 0.06)).verdict == "PASS"
    assert figure_of(busy).verdict == "NOT MEASURED"


def test_batches_are_compared_where_they_are_the_same_work() -> None:
    """Other batches by the peer's settings, and crops that it draws, are not; another picture stops the run."""
    batch = np.zeros((2, 224, 224, 3), np.uint8)
    ours, theirs = {"batch": batch}, {"batch": batch + np.uint8(100)}
    work = WORKS["web-train-uint8"][2]
    assert likeness(work, "pillow", ours, ours) == 99
    assert likeness(work, "dali", ours, theirs) is None
    assert likeness(WORKS["web-train-float32"][2], "spdl-uint8", ours, theirs) is None
    with pytest.raises(OutputMismatch, match="pillow does not do the work of"):
        likeness(work, "pillow", ours, theirs)


def test_holding_python_is_measured_beside_the_call() -> None:
    """The work is done once alone and once beside the thread that measures."""
    turns: list[int] = []

    def load() -> Iterable[int]:
        turns.append(len(turns))
        return range(3)

    answer = measure_held(load)
    assert turns == [0, 1]
    assert set(answer) == {"wall", "held", "held_at_most"}


def test_floats_are_compared_as_levels() -> None:
    """Normalised or not, the same difference is as many dB; another shape or type is none."""
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 200, (2, 3, 4, 5)).astype(np.float32)

    def normalised(array: Any) -> Any:
        shape = (1, 3, 1, 1)
        return ((array / 255 - np.reshape(MEAN, shape)) / np.reshape(STD, shape)).astype(np.float32)

    floats, integers = Work("eval", "float32", 1, 2), Work("eval", "uint8", 1, 2)
    assert likeness_of(normalised(levels), normalised(levels), floats) > 90
    assert likeness_of(normalised(levels), normalised(levels + 10), floats) == pytest.approx(28.1, abs=0.1)
    pictures = levels.astype(np.uint8)
    assert likeness_of(pictures, pictures + np.uint8(10), integers) == pytest.approx(28.1, abs=0.1)
    assert likeness_of(pictures, levels, integers) == 0
    assert likeness_of(pictures, pictures[:1], integers) == 0


def test_peers_put_parts_where_torchvision_does() -> None:
    """The longer side is rounded down, an odd margin is larger at the end, and a mirrored part is mirrored."""
    assert _canvas.shorter_side(500, 375) == (341, 256)
    assert _canvas.shorter_side(333, 500) == (256, 384)
    assert _canvas.middle(341, 256) == (58, 16)
    photo = Photo(0, "", crop=(10, 20, 100, 50))
    assert _canvas.least_size(Work("train", "uint8", 1, 1), photo, 500, 375) == (500, 375)
    photo = Photo(0, "", crop=(10, 20, 2000, 1000), flip=True)
    assert _canvas.least_size(Work("train", "uint8", 1, 1), photo, 4000, 3000) == (896, 336)
    half = np.broadcast_to(np.arange(2000)[None, :, None], (1500, 2000, 3))
    part = _canvas.transformed(half, Work("train", "uint8", 1, 1), photo, lambda pixels, size: pixels, (4000, 3000))
    assert (part.shape, part[0, 0, 0], part[0, -1, 0]) == ((1000, 500, 3), 10, 509)


def test_put_mirrors_and_normalises() -> None:
    """A slot of floats is planes of normalised levels, one of bytes is the picture."""
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3)).astype(np.uint8)
    batch = _canvas.empty_batch(Work("train", "uint8", 1, 1), 1)
    _canvas.put(batch[0], pixels, flip=True)
    assert np.array_equal(batch[0], pixels[:, ::-1])
    batch = _canvas.empty_batch(Work("train", "float32", 1, 1), 1)
    _canvas.put(batch[0], pixels, flip=False)
    expected = (pixels / 255 - MEAN) / STD
    assert np.allclose(batch[0], expected.transpose(2, 0, 1), atol=1e-5)


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    """Two photographs: slopes and a shape, which any filter keeps, of two sizes."""
    paths = []
    for number, (width, height) in enumerate(((500, 375), (300, 420))):
        y, x = np.mgrid[:height, :width]
        pixels = np.stack([255 * x / width, 255 * y / height, 128 + 100 * np.sin(x / 40) * np.cos(y / 60)], axis=2)
        path = tmp_path / f"{number}.jpg"
        Image.fromarray(pixels.astype(np.uint8)).save(path, quality=95)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize(
    ("transform", "dtype"),
    [("fit", "uint8"), ("eval", "uint8"), ("eval", "float32"), ("train", "uint8"), ("train", "float32")],
)
def test_ours_does_what_pillow_does(photos: list[str], transform: str, dtype: str) -> None:
    """For every transform, with the parts that ours drew, in one thread and in two."""
    from benchmarks.images.adapters import pillow_draft, pillow_resize, spdl_batch

    drawn = [Photo(**each) for each in spdl_batch.draw(photos)]
    if transform != "train":
        drawn = [Photo(each.index, each.path) for each in drawn]
    work = Work(transform, dtype, 1, 2)
    load = spdl_batch.prepare(work, drawn)
    assert load is not None
    [ours] = load()
    for other in (Work(transform, dtype, 2, 2), Work(transform, dtype, 1, 2, reuse=True)):
        load = spdl_batch.prepare(other, drawn)
        assert load is not None or (transform == "fit" and other.reuse)
        assert load is None or np.array_equal(ours, next(iter(load())))
    for adapter in (pillow_resize, pillow_draft):
        [theirs] = adapter.prepare(work, drawn)()
        assert likeness_of(ours, theirs, work) > ALIKE_DB


def test_session_loads_all_photographs_in_each_turn(photos: list[str]) -> None:
    """It tells how many there are; a peer with the settings of the case takes no part."""
    from benchmarks.images.adapters import spdl_batch

    data = {"work": asdict(Work("eval", "uint8", 1, 2)), "is_held": False}
    data["photos"] = [{"index": index, "path": path} for index, path in enumerate(photos)]
    session = _session.open(spdl_batch, Task("web-eval-uint8", data, {"reuse": True}))
    assert session is not None
    assert session.outputs()["batch"].shape == (2, 224, 224, 3)
    assert session.calibrate(1)["num_photos"] == 2
    assert set(session.measure()) == {"wall_us", "cpu_us"}
    assert _session.open(spdl_batch, Task("web-eval-uint8", data, {"num_threads": 1})) is None
    held = _session.open(spdl_batch, Task("web-eval-uint8-held", data | {"is_held": True}))
    assert held is not None
    assert set(held.measure()) == {"wall_s", "held_s", "held_at_most_s"}
