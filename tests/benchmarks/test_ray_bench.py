"""benchmarks/ray: what is compared and required. No time is asserted."""

from typing import Any

import numpy as np

from benchmarks._contest.result import Result
from benchmarks.ray._cases import CONTEST, differ


def result_of(case: str, **costs: Any) -> Result:
    return Result({"cases": [{"name": case, "costs": {peer.replace("_", "-"): cost for peer, cost in costs.items()}}]})


def verdicts(result: Result) -> dict[str, bool]:
    return {each.measured(result).title: each.measured(result).passed for each in CONTEST.required}


def test_other_pictures_are_refused() -> None:
    """Decoders may differ by one level in the mean of a picture."""
    means = {"means": np.arange(64.0)}
    assert differ(means, {"means": np.arange(64.0) + 0.5}) is None
    assert "differs by 2.00" in str(differ(means, {"means": np.arange(64.0) + 2}))
    assert "it gave 63 pictures, not 64" in str(differ(means, {"means": np.arange(63.0)}))


def test_figures_are_ratios_to_processes_and_to_ray_data() -> None:
    """Of the rounds' times."""
    found = verdicts(
        result_of(
            "photos",
            actors={"wall_us": [10.0, 10.0]},
            processes={"wall_us": [8.5, 8.5]},
            ray_data={"wall_us": [30.0, 30.0]},
            ray_data_spdl={"wall_us": [15.0, 15.0]},
        )
    )
    assert found["photos: processes over actors"]
    assert found["photos: ray-data over actors"]
    assert not found["photos: ray-data-spdl over actors"]


def test_the_object_store_is_measured_once() -> None:
    """After the turns, of actors that use it."""
    title = "object store over what is in flight"
    assert verdicts(result_of("fill", actors_far={"wall_us": [1.0], "store_ratio": 1.1}))[title]
    assert not verdicts(result_of("fill", actors_far={"wall_us": [1.0], "store_ratio": 1.4}))[title]
