"""States whose text is valid JSON with odd content: loaded, or refused with ``ResumeError``; never another error.

Each value in the documents of real states is replaced by odd ones, removed, or repeated. What loads may not hang, and
fails afterwards, if at all, with a ``ResumeError`` too.
"""

import copy
import json
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from spdl import resume
from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.resume import ResumeError
from spdl.source import DistributedKeyedSampler, KeyedMix
from tests.support.soak import amount, seeds
from tests.support.timeouts import TIMEOUT

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    10**30,
    2**63,
    1.5,
    "",
    "x",
    "²",
    [],
    [[]],
    [[0, 1]],
    [[1, 0]],
    [[0, 10**30]],
    [[0, 1, 0]],
    [[0, 10, 1]],
    [None],
    {},
    {"": 0},
    {"0": [[0, 1]]},
    {"x": [1]},
    {"state": 1},
    {"pickled": "x"},
    {"position": -1, "state": None},
]


class Stateful:
    """A source with state, which checks its own part of the document."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[int]:
        while self.position < 20:
            self.position += 1
            yield self.position - 1
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        position = state.get("position") if isinstance(state, dict) else None
        if type(position) is not int or not 0 <= position <= 20:
            raise ResumeError(f"no position: {state!r}")
        self.position = position


def twice(item: Any) -> Iterator[Any]:
    yield from (item, item)


Make = Callable[[], Any]


def _ranked(rank: int = 0, world: int = 2) -> Any:
    source = DistributedKeyedSampler(23, rank=rank, world_size=world, seed=1)
    return PipelineBuilder().add_source(source, continuous=True).pipe(str, concurrency=2).aggregate(3).add_sink(2)


MAKERS: dict[str, Make] = {
    "list": lambda: PipelineBuilder().add_source(range(20)).pipe(twice).aggregate(3).add_sink(2),
    "epochs": lambda: PipelineBuilder().add_source(range(5), continuous=True).aggregate(2).add_sink(2),
    "state": lambda: PipelineBuilder().add_source(Stateful()).aggregate(2).add_sink(2),
    "mix": lambda: (
        PipelineBuilder()
        .add_source(KeyedMix([range(9), range(5)], [2, 1], at_end="stop", seed=2))
        .aggregate(2)
        .add_sink(2)
    ),
    "rank": _ranked,
}


def _state(make: Make, num_batches: int) -> dict[str, str]:
    pipeline = make().build(resumable=True)
    with pipeline.auto_stop():
        for _ in range(num_batches):
            with suppress(EOFError):  # the end of an epoch
                pipeline.get_item(timeout=TIMEOUT)
        found: dict[str, str] = pipeline.state_dict()
    return found


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _places(each, (*place, key))


def _mutants(document: Any) -> Iterator[tuple[str, Any]]:
    for place in _places(document):
        if not place:
            yield from ((f"document = {odd!r}", odd) for odd in ODD)
            continue
        for odd in [*ODD, "remove", "again"]:
            mutant = copy.deepcopy(document)
            parent = mutant
            for key in place[:-1]:
                parent = parent[key]
            if odd == "remove":
                del parent[place[-1]]
            elif odd == "again" and isinstance(parent, list):
                parent.insert(place[-1], copy.deepcopy(parent[place[-1]]))
            elif odd == "again":
                parent[f"{place[-1]}."] = parent[place[-1]]
            else:
                parent[place[-1]] = odd
            yield f"{place} = {odd!r}", mutant


def _read_on(make: Make, state: Any) -> None:
    """Load it and read some batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = make().build(resumable=True)
        pipeline.load_state_dict(state)
        with pipeline.auto_stop():
            for _ in range(3):
                try:
                    pipeline.get_item(timeout=TIMEOUT)
                except EOFError:
                    break
            pipeline.state_dict()


def _try(what: str, action: Callable[[], Any]) -> str | None:
    try:
        action()
    except ResumeError:
        return None
    except PipelineFailure as failure:
        # The number of a source's items is known only when it has been read.
        if all(isinstance(each, ResumeError) or "cannot resume: source" in str(each) for each in failure.exceptions):
            return None
        return f"{what}: {failure.exceptions!r}"
    except BaseException as exc:
        return f"{what}: {exc!r}"
    return None


def _sample(document: Any, seed: int, number: int) -> list[tuple[str, Any]]:
    found = list(_mutants(document))
    return random.Random(seed).sample(found, min(number, len(found)))


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("kind", list(MAKERS))
def test_odd_states_of_pipelines(kind: str, seed: int) -> None:
    """In the middle of an epoch, and in the second."""
    make = MAKERS[kind]
    wrong = []
    for num_batches in (2, 4):
        document = json.loads(_state(make, num_batches)["spdl"])
        for what, mutant in _sample(document, seed, amount(60, 400)):
            state = {"spdl": json.dumps(mutant)}
            wrong.append(_try(what, partial(_read_on, make, state)))
    assert not (found := [each for each in wrong if each]), "\n".join(found)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_odd_gathered_states(seed: int) -> None:
    """Of two ranks, for one, two and three; and states of two ranks that are gathered."""
    states = [_state(partial(_ranked, rank), 3) for rank in range(2)]
    wrong = []
    for what, mutant in _sample(json.loads(states[1]["spdl"]), seed, amount(100, 400)):
        odd = {"spdl": json.dumps(mutant)}
        wrong.append(_try(what, partial(resume.gather, [states[0], odd])))
    document = json.loads(resume.gather(states)["spdl"])
    for what, mutant in _sample(document, seed, amount(60, 400)):
        state = {"spdl": json.dumps(mutant)}
        for world in (1, 2, 3):
            make = partial(_ranked, world - 1, world)
            wrong.append(_try(f"{world}: {what}", partial(_read_on, make, state)))
    assert not (found := [each for each in wrong if each]), "\n".join(found)
