"""Applied to every test: nothing that a test started may outlive it."""

import logging
from collections.abc import Iterator

import pytest

from tests.support.leaks import Snapshot, TaskComplaints, find_leaks


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
