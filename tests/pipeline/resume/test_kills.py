"""A process that is killed loses nothing: another one goes on from the newest state that it has told."""

import json
import pickle
import signal
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.resume.graphs import Graph, expected
from tests.pipeline.resume.strategies import graphs
from tests.strategies.profiles import cases
from tests.support.child import TIMEOUT, run_child
from tests.support.soak import amount, seeds

#: Epochs of a continuous source that are read.
NUM_EPOCHS = 2
#: Tells each item that it has taken and, after every few, the state; a signal ends it at any moment after the first.
SCRIPT = """
import json, os, pickle, signal, threading, warnings
from spdl.pipeline import PipelineBuilder
from tests.pipeline.resume.graphs import build, executor, leaves

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def tell(what):
    os.write(1, (json.dumps(what) + "\\n").encode())

graph, state, delay = pickle.loads(bytes.fromhex({graph!r})), {state!r}, {delay!r}
warnings.simplefilter("ignore", UserWarning)
with executor():
    pipeline = build(graph)
    if state is not None:
        pipeline.load_state_dict(state)
    killer = threading.Timer(0 if delay is None else delay, kill)
    killer.daemon = True
    with pipeline.auto_stop():
        number, left = 0, {left!r}
        while left:
            try:
                told = list(leaves(pipeline.get_item()))
            except EOFError:
                told = "end"
                left -= 1
            number += 1
            tell(told)
            if number == 1 and delay is not None:
                killer.start()
            if told == "end" or number % {every!r} == 0:
                tell(pipeline.state_dict())
"""


def run_to_a_kill(graph: Graph, state: Any, left: int, every: int, delay: float | None) -> tuple[list[Any], Any]:
    """Returns what was told up to the newest state, and that state."""
    script = SCRIPT.format(graph=pickle.dumps(graph).hex(), state=state, left=left, every=every, delay=delay)
    ended = run_child(script)
    assert ended.returncode in ((0,) if delay is None else (0, -signal.SIGKILL)), ended
    ended.check_no_complaint()
    taken: list[Any] = []
    since: list[Any] = []
    for line in ended.stdout.splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # it was killed while it told this
        told = json.loads(line)
        if isinstance(told, dict):
            state, taken, since = told, taken + since, []
        else:
            since.append(told)
    return taken, state


@pytest.mark.slow
@cases(amount(4, soak=60))
@given(
    graph=graphs(most=40),
    every=st.integers(1, 5),
    delays=st.lists(st.floats(0, 0.03), min_size=1, max_size=amount(2, soak=20)),
)
def test_a_killed_run_goes_on(graph: Graph, every: int, delays: list[float]) -> None:
    """With every item exactly once: what was told before the state, and what comes after it."""
    num_epochs = NUM_EPOCHS if graph.continuous else 1
    found: list[Any] = []
    state: Any = None
    for delay in (*delays, None):
        left = num_epochs - found.count("end")
        taken, state = run_to_a_kill(graph, state, left, every, delay)
        found += taken
        if found.count("end") == num_epochs:
            break
    epochs: list[list[Any]] = [[]]
    for told in found:
        if told == "end":
            epochs.append([])
        else:
            epochs[-1] += map(tuple, told)
    assert len(epochs) == num_epochs + 1
    for epoch in range(num_epochs):
        wanted = expected(graph, epoch)
        assert Counter(epochs[epoch]) == Counter(wanted), f"epoch {epoch}"
        if graph.keeps_order:
            assert epochs[epoch] == wanted, f"epoch {epoch}"


OFTEN = """
import pickle, warnings
from spdl.dataloader import _device
from tests.pipeline.resume.graphs import build, executor, expected, leaves
from tests.pipeline.resume.iterating import Prefetched
from tests.pipeline.resume.killing import kill_often, tell_all

_device.get_torch = lambda: None  # nothing is moved to a device
graph = pickle.loads(bytes.fromhex({graph!r}))

def read(state, left, tell):
    warnings.simplefilter("ignore", UserWarning)
    with executor():
        pipeline = build(graph)
        if {num_prefetch!r}:
            pipeline = Prefetched(pipeline, {num_prefetch!r})
        if state is not None:
            pipeline.load_state_dict(state)
        with pipeline.auto_stop():
            for _ in range(left):
                tell_all(lambda: list(leaves(pipeline.get_item(timeout=60))), pipeline.state_dict, {every!r}, tell)

kill_often(read, lambda epoch: expected(graph, epoch), seed={seed!r}, num_kills={num_kills!r},
           num_epochs={num_epochs!r}, keeps_order=graph.keeps_order)
print("done")
"""


@pytest.mark.slow
@cases(amount(2, soak=300))
@given(
    graph=graphs(most=40), every=st.integers(1, 5), seed=st.integers(0, 2**32), num_prefetch=st.sampled_from([0, 0, 3])
)
def test_runs_that_are_killed_again_and_again_lose_nothing(
    graph: Graph, every: int, seed: int, num_prefetch: int
) -> None:
    """Each graph is killed at 20 random moments, by a parent that records what was taken; some are read ahead."""
    num_epochs, num_kills = NUM_EPOCHS if graph.continuous else 1, amount(5, soak=20)
    script = OFTEN.format(
        graph=pickle.dumps(graph).hex(),
        every=every,
        seed=seed,
        num_kills=num_kills,
        num_epochs=num_epochs,
        num_prefetch=num_prefetch,
    )
    check_done(script)


IN_SUBPROCESS = """
from tests.pipeline.resume.killing import kill_often, tell_all
from tests.pipeline.resume.test_subprocess import start

def read(state, left, tell):
    items = start(continuous=True, buffer_size=3)
    if state is not None:
        items.load_state_dict(state)
    for _ in range(left):
        iterator = iter(items)
        def take():
            for item in iterator:
                return [[item]]
            raise EOFError
        tell_all(take, items.state_dict, {every!r}, tell)

if __name__ == "__main__":
    whole = [(10 * item + part,) for item in range(5) for part in range(3)]
    kill_often(read, lambda epoch: whole, seed={seed!r}, num_kills={num_kills!r}, num_epochs=3, keeps_order=True)
    print("done")
"""


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_a_pipeline_in_a_subprocess_loses_nothing(seed: int) -> None:
    """What it had sent to the process that was killed, and that process had not read, comes again."""
    check_done(IN_SUBPROCESS.format(every=1 + seed % 4, seed=seed, num_kills=amount(2, soak=20)))


def check_done(script: str) -> None:
    ended = run_child(script, timeout=amount(1, soak=5) * TIMEOUT)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended
    ended.check_no_complaint()
