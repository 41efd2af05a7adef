"""Nested batches are rebuilt with other leaves, and nothing else about them changes."""

import types
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

import pytest

from spdl.io._devices._staging import map_leaves


class Leaf:
    """What is to be changed."""


class Moved:
    """What it is changed to."""


LEAF, MOVED = Leaf(), Moved()


def move(obj: Any, **options: Any) -> Any:
    return map_leaves(lambda leaf: MOVED if isinstance(leaf, Leaf) else leaf, obj, **options)


class Pair(NamedTuple):
    x: Any
    y: Any


OldPair = namedtuple("OldPair", "x y")  # people have these


class Triple(tuple[Any, ...]):
    """A subclass made of one iterable, as tuples are."""


class Named(list[Any]):
    """A list with an attribute, and not made of an iterable."""

    def __init__(self, name: str, *values: Any) -> None:
        super().__init__(values)
        self.name = name


class Encoding(UserDict[str, Any]):
    """As tokenizers return them."""

    def __init__(self, data: dict[str, Any], encodings: Any) -> None:
        super().__init__(data)
        self.encodings = encodings


@dataclass
class Plain:
    x: Any
    name: str = "plain"


@dataclass(frozen=True)
class Frozen:
    x: Any


@dataclass(slots=True)
class Slotted:
    x: Any
    y: Any = field(init=False)


@dataclass(frozen=True, slots=True)
class Hard:
    x: Any
    y: Any = None


@dataclass
class Checked:
    x: Any
    size: InitVar[int] = 0
    derived: Any = field(init=False, default=None)

    def __post_init__(self, size: int) -> None:
        assert isinstance(self.x, Leaf), "made anew"
        self.derived = self.x


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (LEAF, MOVED),
        ([LEAF, 1, "a"], [MOVED, 1, "a"]),
        ((LEAF, (LEAF,)), (MOVED, (MOVED,))),
        (Pair(LEAF, 2), Pair(MOVED, 2)),
        (OldPair(1, [LEAF]), OldPair(1, [MOVED])),
        (Triple([LEAF]), Triple([MOVED])),
        ({"a": LEAF, 2: {"b": [LEAF]}}, {"a": MOVED, 2: {"b": [MOVED]}}),
        (OrderedDict(b=1, a=LEAF), OrderedDict(b=1, a=MOVED)),
        (types.MappingProxyType({"a": LEAF}), types.MappingProxyType({"a": MOVED})),
        (ChainMap({"a": LEAF}, {"b": LEAF}), {"a": MOVED, "b": MOVED}),
        (Plain(LEAF, "other"), Plain(MOVED, "other")),
        (Frozen([LEAF]), Frozen([MOVED])),
        (Hard(LEAF, 3), Hard(MOVED, 3)),
    ],
)
def test_leaves_change_and_the_rest_stays(obj: Any, expected: Any) -> None:
    """Same types, same order, same values otherwise; what was given is not modified."""
    before = repr(obj)
    result = move(obj)
    assert type(result) is type(expected) or isinstance(obj, ChainMap)
    assert result == expected
    assert repr(result) == repr(expected) or isinstance(obj, ChainMap)
    assert repr(obj) == before


@pytest.mark.parametrize(
    "obj",
    [
        "text",
        b"x",
        {1, 2},
        frozenset([LEAF]),
        [1, [2]],
        (1, (2, 3)),
        Pair(1, 2),
        {"a": 1},
        Counter("aab"),
        Frozen(1),
        Pair,
    ],
)
def test_what_has_nothing_to_change_is_the_same_object(obj: Any) -> None:
    """Sets and classes are leaves."""
    assert move(obj) is obj


def test_parts_that_stay_are_the_same_objects() -> None:
    """Only the way to what changed is copied."""
    still = {"a": [1, 2]}
    result = move([still, LEAF])
    assert result[0] is still


def test_subclasses_keep_what_they_carry() -> None:
    """Attributes, default factories, encodings."""
    named = move(Named("n", LEAF))
    assert type(named) is Named
    assert (named.name, list(named)) == ("n", [MOVED])
    assert move(defaultdict(int, a=LEAF)).default_factory is int
    encodings = object()
    original = Encoding({"ids": LEAF}, encodings)
    moved = move(original)
    assert (type(moved), moved["ids"], moved.encodings) == (Encoding, MOVED, encodings)
    assert original["ids"] is LEAF


def test_dataclasses_are_not_initialised_again() -> None:
    """``__post_init__`` may check or derive what no longer holds; a slot may be empty."""
    checked = move(Checked(LEAF, size=3))
    assert checked.x is MOVED
    assert checked.derived is MOVED
    slotted = move(Slotted(LEAF))
    assert slotted.x is MOVED
    assert not hasattr(slotted, "y")


def test_whole_types_are_leaves() -> None:
    """Even if they are containers."""
    assert move([Pair(LEAF, 1)], whole=(Pair,)) == [Pair(LEAF, 1)]
    assert map_leaves(lambda leaf: 5, [Pair(LEAF, 1), 1], whole=(Pair,)) == [5, 5]


def test_what_cannot_be_made_anew_says_so() -> None:
    """With the type and a remedy."""

    class Fixed(tuple[Any, ...]):
        def __new__(cls, a: Any, b: Any) -> "Fixed":
            return super().__new__(cls, (a, b))

    class Taking(tuple[Any, ...]):
        def __new__(cls, *values: Any) -> "Taking":
            return super().__new__(cls, values)

    class ReadOnly(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return LEAF

        def __iter__(self) -> Iterator[str]:
            return iter("ab")

        def __len__(self) -> int:
            return 2

    class Shared(dict[str, Any]):
        def __copy__(self) -> "Shared":
            return self

    for obj, name in [
        (Fixed(LEAF, 1), "Fixed"),
        (Taking(LEAF, 1), "Taking"),
        (ReadOnly(), "ReadOnly"),
        (Shared(a=LEAF), "Shared"),
    ]:
        with pytest.raises(TypeError, match=name):
            move(obj)
