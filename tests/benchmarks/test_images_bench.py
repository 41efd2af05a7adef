"""benchmarks/images: like is compared with like, and what is required can be measured. No time is asserted here."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks.images._cases import HELD_CASES, Case, make_cases
from benchmarks.images._compare import ALIKE_DB, likeness_of
from benchmarks.images._held import measure_held
from benchmarks.images._peers import OURS, PEERS, peer_named
from benchmarks.images._report import held_figures, rows_of
from benchmarks.images._work import MEAN, STD, Photo, Work
from benchmarks.images.adapters import _canvas


def _case(name: str) -> Case:
    [case] = [case for case in make_cases() if case.name == name]
    return case


def test_required_figures_name_peers_that_take_part() -> None:
    """A figure that can never be measured would never be missed."""
    cases = make_cases()
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert all(peer_named(name).work_in(case.work) is not None for name in case.required)
    assert {case.name for case in cases} >= set(HELD_CASES)


def test_ours_done_otherwise_takes_no_part_where_the_case_says_the_same() -> None:
    """The rows that say what float32 and a second thread bring are in the cases of those only."""

    def taking_part(case: Case) -> set[str]:
        return {peer.name for peer in PEERS if peer.changes and peer.work_in(case.work) is not None}

    assert taking_part(_case("web-eval-uint8")) == {"spdl-reuse"}
    assert taking_part(_case("web-eval-float32")) == {"spdl-reuse", "spdl-uint8"}
    assert taking_part(_case("web-train-float32-2")) == {"spdl-reuse", "spdl-uint8", "spdl-1"}
    assert peer_named("spdl-1").work_in(_case("fit-2").work) == _case("fit").work


def _turns(*walls: float) -> list[dict[str, float]]:
    return [{"wall": wall, "cpu": wall} for wall in walls]


def test_rows_are_ratios_of_the_same_round() -> None:
    """The median of the ratios is judged, the fastest rival has a row of its own, who is missing is not passed."""
    case = _case("web-eval-uint8")
    turns = {OURS: _turns(1, 2, 4), "pillow": _turns(3, 4, 20), "opencv": _turns(2, 2, 4), "planes": _turns(1, 1, 1)}
    rows = {row["name"]: row for row in rows_of(case, PEERS, turns, 10)}
    pillow = rows["pillow"]
    assert (pillow["ms"], pillow["ratio"], pillow["ratio_min"], pillow["ratio_max"]) == (400, 3, 2, 5)
    assert pillow["verdict"] == "PASS"
    assert (rows["opencv"]["ratio"], rows["opencv"]["verdict"]) == (1, "")
    assert (rows["planes"]["ratio"], rows["planes"]["verdict"]) == (0.5, "MISS")
    assert rows["reference"]["verdict"] == "NOT MEASURED"
    assert rows["fastest that reads files: opencv"]["verdict"] == "MISS"


def test_share_of_python_is_the_median_of_the_rounds() -> None:
    """At the limit it is missed. Rounds on a machine that was not free do not count; where all are, nothing does."""
    held = [{"wall": 1.0, "held": held, "held_at_most": held + 0.05} for held in (0.01, 0.02, 0.25)]
    busy = {"wall": 1.0, "held": 0.0, "held_at_most": 3.0}
    [figure] = held_figures({"web-eval-uint8": [*held, busy]})
    assert (figure.measured, figure.spread, figure.verdict) == (2, (1, 30), "MISS")
    [figure] = held_figures({"web-eval-uint8": held[:1]})
    assert figure.verdict == "PASS"
    [figure] = held_figures({"web-eval-uint8": [busy]})
    assert figure.verdict == "NOT MEASURED"


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
