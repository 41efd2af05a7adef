"""benchmarks/devices: it says what is missing where there is no GPU, and what is required can be measured."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks._contest.required import Ratio
from benchmarks.devices._cases import CONTEST, find_missing
from tests.support.child import run_child
from tests.support.gpu import require_cuda

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "devices" / "run.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *options], capture_output=True, text=True, timeout=100, check=False
    )


def test_required_figures_name_cases_and_peers_that_take_part() -> None:
    """A figure that can never be measured would never be missed."""
    cases = {case.name for case in CONTEST.make_cases(Path(), True)}
    peers = {peer.name for peer in CONTEST.peers}
    for required in CONTEST.required:
        assert isinstance(required, Ratio)
        assert required.of[0] in cases
        assert required.of[1] in peers


@pytest.mark.slow
@pytest.mark.skipif(find_missing() is None, reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured_and_it_says_why() -> None:
    """That is no failure, unless figures are required."""
    pytest.importorskip("torch")
    for options, returncode in (["--quick"], 0), (["--quick", "--require"], 1):
        done = run_child(f"""
            import runpy, sys
            import torch
            sys.argv = ["run.py", *{options}]
            runpy.run_path({str(RUN)!r}, run_name="__main__")
        """)
        assert done.returncode == returncode, done
        assert "nothing is measured" in done.stderr


@pytest.mark.gpu
@pytest.mark.slow
def test_all_ways_bring_the_same() -> None:
    """On a device."""
    require_cuda()
    done = run("--quick", "--rounds", "1")
    assert done.returncode == 0, done.stderr
