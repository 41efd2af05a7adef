"""Names with braces."""

import pytest

from spdl.source._find import expand_braces


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("a-{000..002}.tar", ["a-000.tar", "a-001.tar", "a-002.tar"]),
        ("a-{9..11}", ["a-9", "a-10", "a-11"]),
        ("a-{08..10}", ["a-08", "a-09", "a-10"]),
        ("{3..1}", ["3", "2", "1"]),
        ("{0..6..3}", ["0", "3", "6"]),
        ("{train,val}-{0..1}", ["train-0", "train-1", "val-0", "val-1"]),
        ("{one}{}", ["{one}{}"]),
        ("s3://b/{a,b}/x", ["s3://b/a/x", "s3://b/b/x"]),
    ],
)
def test_names_are_those_of_the_shell(pattern: str, names: list[str]) -> None:
    """As WebDataset, whose package agrees where it is installed, reads them."""
    assert expand_braces(pattern) == names
    try:
        import braceexpand
    except ImportError:
        return
    assert list(braceexpand.braceexpand(pattern)) == names
