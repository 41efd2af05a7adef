"""CPU quotas of control groups: found in both versions, at any depth, and told as the limit once they are used up."""

from pathlib import Path
from typing import Any

import pytest

from spdl._cpus import CpuQuota, read_quota, usable_cpus
from spdl.pipeline import PipelineBuilder
from spdl.pipeline._observe import _sampling
from spdl.pipeline._observe._sampling import CpuReading
from spdl.pipeline._observe._stats import Measured

V1 = {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}
STAT = {"cpu.stat": "nr_periods 100\nnr_throttled 60\nthrottled_usec 1234\n"}


def write(root: Path, groups: str | None, folders: dict[str, dict[str, str]]) -> str:
    """Lay out ``/proc/self/cgroup`` and files below ``/sys/fs/cgroup``."""
    files = {
        f"sys/fs/cgroup/{folder}/{name}": text for folder, found in folders.items() for name, text in found.items()
    }
    if groups is not None:
        files["proc/self/cgroup"] = groups
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


CASES: dict[str, tuple[str | None, dict[str, dict[str, str]], CpuQuota | None]] = {
    "nothing": (None, {}, None),
    "version 2, outermost": ("0::/\n", {"": {"cpu.max": "150000 100000\n"} | STAT}, CpuQuota(1.5, 100, 60)),
    "version 2, none": ("0::/a\n", {"a": {"cpu.max": "max 100000\n"} | STAT}, None),
    "version 2, own group": ("0::/a/b\n", {"a/b": {"cpu.max": "200000 100000\n"}}, CpuQuota(2.0)),
    "version 2, the lowest of all": (
        "0::/a/b\n",
        {"a": {"cpu.max": "50000 100000\n"} | STAT, "a/b": {"cpu.max": "200000 100000\n"}},
        CpuQuota(0.5, 100, 60),
    ),
    "version 2, path of the host": ("0::/host/pod\n", {"": {"cpu.max": "100000 100000\n"}}, CpuQuota(1.0)),
    "version 2, above the namespace": ("0::/../a\n", {"a": {"cpu.max": "100000 100000\n"}}, CpuQuota(1.0)),
    "version 2, without /proc": (None, {"": {"cpu.max": "100000 100000\n"}}, CpuQuota(1.0)),
    "version 1": ("2:cpuacct:/\n1:cpu:/job\n0::/\n", {"cpu/job": V1 | STAT}, CpuQuota(0.5, 100, 60)),
    "version 1, with another controller": ("4:cpu,cpuacct:/job\n", {"cpu,cpuacct/job": V1}, CpuQuota(0.5)),
    "version 1, none": ("1:cpu:/\n", {"cpu": V1 | {"cpu.cfs_quota_us": "-1\n"}}, None),
    "version 1, without /proc": (None, {"cpu": V1}, CpuQuota(0.5)),
    "other controllers": ("3:cpuset:/job\n", {"cpu/job": V1, "cpuset/job": V1}, None),
    "nonsense": ("0::/\nrubbish\n", {"": {"cpu.max": "rubbish\n", "cpu.stat": "rubbish\n"}}, None),
    "zero": ("0::/\n", {"": {"cpu.max": "0 0\n"}}, None),
    "nonsense in cpu.stat": ("0::/\n", {"": {"cpu.max": "100000 100000\n", "cpu.stat": "rubbish\n"}}, CpuQuota(1.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_quota_is_the_lowest_of_the_groups_of_the_process(case: str, tmp_path: Path) -> None:
    """Both versions, every depth, and files that are not there or make no sense."""
    groups, folders, expected = CASES[case]
    assert read_quota(write(tmp_path, groups, folders)) == expected


@pytest.mark.parametrize(("cpus", "expected"), [(0.2, 1), (0.6, 1), (1e9, None)])
def test_usable_cpus_are_rounded_and_at_least_one(
    cpus: float, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota of a part of a CPU is one thread; one above the CPUs there are changes nothing."""
    monkeypatch.setattr("spdl._cpus.read_quota", lambda: None)
    whole = usable_cpus()
    monkeypatch.setattr("spdl._cpus.read_quota", lambda: CpuQuota(cpus))
    assert usable_cpus() == (expected or whole)


def measured(monkeypatch: pytest.MonkeyPatch, before: CpuQuota | None, after: CpuQuota | None) -> Any:
    """What a pipeline is measured to have been throttled, between two readings."""
    readings = [CpuReading(0.0, 0.0, None, before), CpuReading(10.0, 5.0, None, after)]
    monkeypatch.setattr(_sampling, "read_cpu", lambda: readings.pop(0))
    pipeline = PipelineBuilder().add_source([1]).add_sink().build(num_threads=1)
    sampling = _sampling.Sampling(pipeline.stats(), lambda sampler: type("", (), {"settle": id, "end": id})())
    try:
        return sampling.read()
    finally:
        readings.append(CpuReading(10.0, 5.0, None, after))
        sampling.end()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (CpuQuota(1.0, 100, 10), CpuQuota(1.0, 200, 70), (100, 60)),
        (None, CpuQuota(1.0, 200, 70), (0, 0)),
        (CpuQuota(1.0, 100, 10), None, (0, 0)),
        (CpuQuota(1.0, 500, 90), CpuQuota(0.5, 20, 10), (0, 0)),
    ],
    ids=["both", "no quota before", "no quota now", "another group"],
)
def test_periods_are_those_of_the_measurement(
    before: CpuQuota | None, after: CpuQuota | None, expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters of the group count from the start of the measurement, and not across two groups."""
    monkeypatch.setattr(_sampling.Sampling, "_make_sampler", lambda self: None)
    found = measured(monkeypatch, before, after)
    assert (found.num_periods, found.num_throttled) == expected


def test_periods_of_an_interval_are_a_difference() -> None:
    """The part of a measurement has its own periods."""
    early = Measured(
        seconds=1, own_cpu=1, machine_cpu=None, cpu_limit=1, machine_cpus=2, num_periods=10, num_throttled=1
    )
    late = Measured(
        seconds=2, own_cpu=2, machine_cpu=None, cpu_limit=1, machine_cpus=2, num_periods=20, num_throttled=9
    )
    assert ((late - early).num_periods, (late - early).num_throttled) == (10, 8)
