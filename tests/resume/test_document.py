"""The text form of states: what is written is read, and nothing else is."""

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.resume import ResumeError
from spdl.resume._document import decode, describe_difference, encode
from tests.strategies.profiles import cases

PIPELINE: dict[str, Any] = {
    "kind": "pipeline",
    "version": 1,
    "fingerprint": [["source", "list", 1000], ["pipe", "decode"], ["aggregate", 32, True]],
    "approximate": [],
    "sources": [
        {
            "kind": "indexed",
            "rank": 0,
            "world": 2,
            "length": 1000,
            "lockstep": False,
            "epochs": [
                {
                    "epoch": 0,
                    "high": 412,
                    "holes": [[17, 18], [380, 412]],
                    "parts": {"17": [[0, 2]], "380.2": [[1, 3]]},
                    "iterator": None,
                }
            ],
            "ended": False,
        }
    ],
}


def test_a_document_is_one_text() -> None:
    """One key, one line of ASCII, and equal documents have equal texts."""
    state = encode({"kind": "test", "name": "Ü", "b": 1, "a": 2})
    assert state == {"spdl": '{"a":2,"b":1,"kind":"test","name":"\\u00dc","version":1}'}
    assert state == encode({"a": 2, "b": 1, "name": "Ü", "kind": "test"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@cases(100)
@given(value=JSON)
def test_what_is_written_is_read(value: Any) -> None:
    """Also after pickling and after another round of JSON."""
    state = encode({"kind": "test", "value": value})
    for copied in (state, pickle.loads(pickle.dumps(state)), json.loads(json.dumps(state))):
        assert decode(copied, "the test") == {"kind": "test", "value": value, "version": 1}


def test_state_of_a_pipeline_is_read() -> None:
    """Every key of it, and keys of later releases of the same version."""
    assert decode(encode(PIPELINE), "the pipeline") == PIPELINE
    assert decode(encode({**PIPELINE, "note": 1}), "the pipeline")["note"] == 1


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), float("inf"), object(), b"bytes", {(1, 2): 3}])
def test_what_json_lacks_is_refused(value: Any) -> None:
    """Before anything is saved, and with what a source may return."""
    with pytest.raises(ResumeError, match="cannot write the state of a test as JSON"):
        encode({"kind": "test", "value": value})


def test_deep_values_are_refused() -> None:
    """A value that contains itself, or is as deep as if it did."""
    deep: Any = []
    for _ in range(10**5):
        deep = [deep]
    with pytest.raises(ResumeError, match="cannot write the state"):
        encode({"kind": "test", "value": deep})
    with pytest.raises(ResumeError, match="not a JSON document"):
        decode({"spdl": "[" * 10**5}, "the pipeline")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "got an object of type NoneType"),
        ([], "got an object of type list"),
        ("{}", "got an object of type str"),
        ({}, "with the key 'spdl' was expected, got one with no keys"),
        ({"_snapshot": 1, "_steps": 2}, "got one with '_snapshot', '_steps'. It may be the state of another library"),
        ({"spdl": {}}, "the value of 'spdl' must be text, got an object of type dict"),
        ({"spdl": ""}, "its 0 characters are not a JSON document"),
        ({"spdl": '{"version":1'}, "may have been truncated; use an older one"),
        ({"spdl": "[1]"}, "it must be a JSON object, got [1]"),
        ({"spdl": "{}"}, "it has no version, and this release of SPDL reads version 1"),
        ({"spdl": '{"version":2}'}, "it has version 2, and this release of SPDL reads version 1"),
        ({"spdl": '{"version":true}'}, "it has version True"),
        ({"spdl": '{"version":1}'}, "its 'kind' must be text, got nothing"),
        ({"spdl": '{"version":1,"kind":3}'}, "its 'kind' must be text, got 3"),
        ({"spdl": '{"version":1,"kind":"gathered","states":[]}'}, "its 'states' must be a list of documents"),
        ({"spdl": '{"version":1,"kind":"gathered","states":[{"kind":"gathered"}]}'}, "its 'states[0].kind' must be"),
    ],
)
def test_other_states_are_refused(state: Any, message: str) -> None:
    """The message says what the state was for, what it should be and what it is."""
    with pytest.raises(ResumeError) as caught:
        decode(state, "the pipeline")
    assert str(caught.value).startswith("cannot read the state of the pipeline: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("end", range(1, 40))
def test_truncated_states_are_refused(end: int) -> None:
    """Whatever is cut off."""
    text = encode(PIPELINE)["spdl"]
    with pytest.raises(ResumeError, match="may have been truncated"):
        decode({"spdl": text[: len(text) * end // 40]}, "the pipeline")


BAD_VALUES = [
    ("fingerprint", None),
    ("approximate", {}),
    ("sources", {}),
    ("sources/0", []),
    ("sources/0/kind", "magic"),
    ("sources/0/rank", 2),
    ("sources/0/rank", -1),
    ("sources/0/world", 0),
    ("sources/0/world", True),
    ("sources/0/length", -1),
    ("sources/0/lockstep", 0),
    ("sources/0/ended", None),
    ("sources/0/epochs", None),
    ("sources/0/epochs/0", 3),
    ("sources/0/epochs/0/epoch", "0"),
    ("sources/0/epochs/0/high", -1),
    ("sources/0/epochs/0/high", 411),  # below the holes
    ("sources/0/epochs/0/holes", [[3, 2]]),
    ("sources/0/epochs/0/holes", [[-1, 2]]),
    ("sources/0/epochs/0/parts", []),
    ("sources/0/epochs/0/parts", {"a": [[0, 1]]}),
    ("sources/0/epochs/0/parts", {"1.": [[0, 1]]}),
    ("sources/0/epochs/0/parts", {"1": [[1, 0]]}),
    ("sources/0/epochs/0/todo", [[0, 1]]),
    ("sources/0/epochs/0/dropped", 1),
]


@pytest.mark.parametrize(("path", "value"), BAD_VALUES)
def test_documents_of_pipelines_are_checked(path: str, value: Any) -> None:
    """A value that cannot be is refused where the state is read, with its place."""
    document = copy.deepcopy(PIPELINE)
    *parents, last = [int(key) if key.isdecimal() else key for key in path.split("/")]
    at: Any = document
    for key in parents:
        at = at[key]
    at[last] = value
    with pytest.raises(ResumeError, match="The state is damaged or was not made by SPDL"):
        decode(encode(document), "the pipeline")
    with pytest.raises(ResumeError, match=r"its 'states\[0\]\."):
        decode(encode({"kind": "gathered", "states": [document]}), "the pipeline")


REQUIRED = {path for path, _ in BAD_VALUES if path.split("/")[-1] not in ("0", "parts", "todo", "dropped")}


@pytest.mark.parametrize("path", sorted(REQUIRED))
def test_missing_keys_are_named(path: str) -> None:
    """Except those that have a default."""
    *parents, last = [int(key) if key.isdecimal() else key for key in path.split("/")]
    document = copy.deepcopy(PIPELINE)
    at: Any = document
    for key in parents:
        at = at[key]
    del at[last]
    with pytest.raises(ResumeError, match=f"{last}' must be .*, got nothing"):
        decode(encode(document), "the pipeline")


def test_epochs_ascend() -> None:
    """The oldest first, each once."""
    document = copy.deepcopy(PIPELINE)
    document["sources"][0]["epochs"] *= 2
    with pytest.raises(ResumeError, match=r"epochs\[1\].epoch' must be an integer > 0, got 0"):
        decode(encode(document), "the pipeline")


def test_the_difference_of_fingerprints_is_named() -> None:
    """The first stage that differs, or is missing on either side."""
    own: list[Any] = [("source", "list", 1000), ("pipe", "decode"), ("aggregate", 32, True)]
    saved = json.loads(json.dumps(own))
    assert describe_difference(saved, own) is None
    assert describe_difference(saved, [*own[:2], ("aggregate", 64, True)]) == (
        "stage 2 was aggregate 32 true and is aggregate 64 true"
    )
    assert describe_difference(saved, own[:2]) == "stage 2 was aggregate 32 true and is not there"
    assert describe_difference(saved[:2], own) == "stage 2 is aggregate 32 true and was not there"
