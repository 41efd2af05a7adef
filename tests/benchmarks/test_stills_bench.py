"""benchmarks/stills: like is compared with like, and what is required can be measured. No time is asserted here."""

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks._contest.contest import OutputMismatch
from benchmarks._contest.required import Ratio
from benchmarks.stills._cases import ALIKE_DB, CONTEST, FORMATS, SIZES, WORKS, encode, likeness_of


def adapter_of(name: str) -> Any:
    """A peer's module, if this interpreter has the peer."""
    [peer] = [peer for peer in CONTEST.peers if peer.name == name]
    return importlib.import_module(peer.adapter)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two photographs: slopes and a shape, of an even and an odd height."""
    folder = tmp_path_factory.mktemp("photos")
    paths = []
    for number, (width, height) in enumerate(((320, 240), (300, 325))):
        y, x = np.mgrid[:height, :width]
        pixels = np.stack([255 * x / width, 255 * y / height, 128 + 100 * np.sin(x / 40) * np.cos(y / 60)], axis=2)
        path = folder / f"{number}.jpg"
        Image.fromarray(pixels.astype(np.uint8)).save(path, quality=95)
        paths.append(str(path))
    return paths


def test_figures_name_cases_and_peers_that_take_part(tmp_path: Path) -> None:
    """A figure that can never be measured would never be missed."""
    cases = {case.name: case for case in CONTEST.make_cases(tmp_path, True)}
    assert len(cases) == len(FORMATS) * sum(len(photos.works) for photos in SIZES.values())
    for required in CONTEST.required:
        assert isinstance(required, Ratio)
        for case, peer, *_ in (required.of, required.over):
            assert peer in (cases[case].peers or ())


def test_torchcodec_takes_no_part_where_it_ignores_the_range(tmp_path: Path) -> None:
    """AVIF of full range, which it takes for limited range: it gives another picture."""
    left_out = {case.name for case in CONTEST.make_cases(tmp_path, True) if "torchcodec" not in (case.peers or ())}
    assert left_out == {f"avif-{size}-{work}" for size, photos in SIZES.items() for work in photos.works}


def test_likeness_is_that_of_the_worst_picture() -> None:
    """In dB, at most 99; other sizes, missing pictures and too large differences stop the run."""
    picture = np.full((4, 5, 3), 100, np.uint8)
    ours = {"0": picture, "1": picture}
    likeness = partial(likeness_of, "png-web-whole", "pillow", ours)
    assert likeness(ours) == 99
    assert likeness(ours | {"1": picture + np.uint8(8)}) == pytest.approx(30.1, abs=0.1)
    with pytest.raises(OutputMismatch, match=r"pillow does not do .* 'png-web-whole': 1 has a PSNR of 26\.5 dB"):
        likeness(ours | {"1": picture - np.uint8(12)})
    with pytest.raises(OutputMismatch, match="1 is missing"):
        likeness({"0": picture})
    with pytest.raises(OutputMismatch, match=r"0 is \(3, 5, 3\), SPDL's \(4, 5, 3\)"):
        likeness({"0": picture[1:], "1": picture})


@pytest.mark.parametrize("form", FORMATS)
def test_ours_does_what_pillow_does(photos: list[str], form: str, tmp_path: Path) -> None:
    """Whole, one by one at 224x224, and as a batch."""
    if form == "avif" and not avif_can_be_written():
        pytest.skip("Pillow has no AVIF encoder")
    paths = encode(photos, form, tmp_path)
    for work in WORKS:
        given = {}
        for name in ("spdl", "pillow"):
            adapter = adapter_of(name)
            call = adapter.prepare(f"{form}-web-{work}", {"paths": paths, "work": work})
            assert call is not None
            given[name] = adapter.outputs(f"{form}-web-{work}", call())
        assert [picture.shape for picture in given["spdl"].values()] == (
            [(240, 320, 3), (325, 300, 3)] if work == "whole" else [(224, 224, 3)] * 2
        )
        assert likeness_of("png-web-whole", "pillow", given["spdl"], given["pillow"]) > ALIKE_DB


def test_files_are_encoded_once(photos: list[str], tmp_path: Path) -> None:
    """A second run finds them as the first has left them."""
    paths = encode(photos, "png", tmp_path)
    written = [Path(path).stat().st_mtime_ns for path in paths]
    assert encode(photos, "png", tmp_path) == paths
    assert [Path(path).stat().st_mtime_ns for path in paths] == written


def avif_can_be_written() -> bool:
    """Whether this Pillow has an encoder for AVIF."""
    from PIL import features

    return bool(features.check("avif"))
