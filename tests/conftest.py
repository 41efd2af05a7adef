"""What applies to every test: the leak check, what is selected, and how a run is spread over processes."""

import gc
import logging
import multiprocessing
import signal
from collections.abc import Generator, Iterator

import pytest

from spdl._cpus import usable_cpus
from tests.strategies import profiles as profiles  # makes hypothesis' settings those of this run
from tests.support import components, one_ray, soak, spread, timing
from tests.support.leaks import Snapshot, TaskComplaints, find_leaks
from tests.support.one_ray import ray_cluster as ray_cluster  # a fixture
from tests.support.region_kinds import kind as kind  # another

#: What the fork server imports, which each worker process of a test would import otherwise. It has what the package
#: asks for too: a test of ``multiprocessing`` alone may be what starts the server, and then the package is not asked.
_PRELOADED = [
    "numpy",
    "pytest",
    "torch",
    "torch.utils.data",
    "spdl.io",
    "spdl.pipeline",
    "spdl.dataloader",
    "spdl._processes._child_main",
    "spdl.pipeline._remote._iterate_main",
    "spdl.pipeline._build",
    "spdl.pipeline._remote._isolated_main",
    "spdl.pipeline._remote._moved_pool",
    "spdl.pipeline._remote._region_main",
    "spdl.pipeline._remote._run_pipeline_main",
    "tests.support.frozen",
]
#: Processes that run tests; each takes half a gigabyte, and some time to collect.
_MOST_PROCESSES = 16


def pytest_configure() -> None:
    """Prepare what child processes inherit: Ctrl-C, and a fork server that imports what takes long, if it is there."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # Shells start what runs in the background so, and children would inherit it: some of them test Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "forkserver" in multiprocessing.get_all_start_methods():
        multiprocessing.set_forkserver_preload(_PRELOADED)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Share what new modules cost among the processes that tests are spread over."""
    if isinstance(collector, pytest.Session):
        spread.import_share(collector)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is for ``make soak`` alone; in a soak, what is not part of it. Put long tests first, Ray's last."""
    if unstable := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        # The processes that a run is spread over compare the names of their tests.
        raise pytest.UsageError(f"names of tests must not have addresses in them: {unstable}")
    if "timing" in config.option.markexpr:
        timing.mark(items)
    if left_out := soak.select(items):
        config.hook.pytest_deselected(items=left_out)
    one_ray.ray_last(items)
    spread.long_first(config, items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test when the time of a soak is up, nor without what it needs; note how many cases a law is tried on."""
    if soak.is_over():
        pytest.skip("the time is up")
    components.skip_without(item)
    one_ray.skip_without(item)
    if (number := getattr(getattr(item, "obj", None), "num_cases", None)) is not None:
        item.user_properties.append(("num_cases", number))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Shut Ray down after the last test that needs it."""
    try:
        return (yield)
    finally:
        one_ray.shut_down_before(nextitem)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many cases the laws were tried on."""
    passed = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    counts = [value for report in passed for name, value in report.user_properties if name == "num_cases"]
    if counts:
        terminalreporter.write_line(f"laws: {len(counts)}, tried on {sum(counts)} cases")


def pytest_collection_finish() -> None:
    """Exempt what exists now from garbage collection, which the leak check runs often: with torch it takes 0.3 s."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three for each CPU, for ``-n auto``: tests wait for more than half of their time."""
    return min(3 * usable_cpus(), _MOST_PROCESSES)


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a child process, a descriptor or an asyncio task behind.

    ``@pytest.mark.allow_leaks(reason="...")`` opts a test out; the reason is required.
    """
    marker = request.node.get_closest_marker("allow_leaks")
    if marker is not None:
        if not isinstance(marker.kwargs.get("reason"), str) or not marker.kwargs["reason"]:
            pytest.fail('allow_leaks needs a reason: @pytest.mark.allow_leaks(reason="...")')
        yield
        return
    complaints = TaskComplaints()
    logger = logging.getLogger("asyncio")
    logger.addHandler(complaints)
    before = Snapshot.take()
    try:
        yield
        leaks = [*find_leaks(before), *complaints.messages]
    finally:
        logger.removeHandler(complaints)
    if leaks:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(leaks), pytrace=False)
