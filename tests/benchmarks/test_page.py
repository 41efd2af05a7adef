"""The generated tables: filled into their places, and made from every stored result."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks._page.places import fill, names_in
from benchmarks._page.plots import PICTURES, Bar, bars
from benchmarks._page.stored import Stored, in_todays_format, read
from benchmarks._page.tables import PAGE, README

ROOT = Path(__file__).resolve().parents[2]


def test_a_part_replaces_what_stood_in_its_place() -> None:
    """Filling twice changes nothing."""
    text = "before\n<!-- measured: one -->\n\nold\n\n<!-- end -->\nafter\n"
    filled = fill(text, {"one": "new"})
    assert filled == "before\n<!-- measured: one -->\n\nnew\n\n<!-- end -->\nafter\n"
    assert fill(filled, {"one": "new"}) == filled


@pytest.mark.parametrize("parts", [{}, {"two": "x"}, {"one": "x", "two": "y"}])
def test_parts_and_places_must_agree(parts: dict[str, str]) -> None:
    """The message names both."""
    with pytest.raises(ValueError, match=r"places for \['one'\]"):
        fill("<!-- measured: one -->\n<!-- end -->", parts)


def test_a_later_run_of_a_case_replaces_an_earlier_one() -> None:
    """Cases that were not measured again stay."""
    first = {"environment": {}, "cases": [{"name": "a", "costs": 1}, {"name": "b", "costs": 1}]}
    second = {"environment": {}, "cases": [{"case": {"name": "b"}, "costs": 2}]}
    cases = Stored((first, second)).cases
    assert (cases["a"]["costs"], cases["b"]["costs"]) == (1, 2)


@pytest.mark.parametrize(
    "case",
    [
        {"case": {"name": "a"}, "costs": {"spdl": {"wall_us": [2.0]}}},
        {"name": "a", "passes": {"spdl": [{"wall": 2e-6, "consumer": 1e-6, "producer": 1e-6}]}},
        {"name": "a", "num_photos": 10, "turns": {"spdl": [{"wall": 2e-5, "cpu": 1e-5}]}},
        {"name": "a", "costs": {"spdl": {"wall_us": [2.0]}}},
    ],
    ids=["engine", "transport", "images", "today"],
)
def test_earlier_formats_are_read(case: dict[str, object]) -> None:
    """Microseconds per unit, one value per round."""
    read_back = in_todays_format(case)
    assert read_back["name"] == "a"
    assert read_back["costs"]["spdl"]["wall_us"] == [pytest.approx(2.0)]


def test_a_benchmark_without_results_is_named() -> None:
    """The message says what to run."""
    with pytest.raises(FileNotFoundError, match=r"benchmarks/nothing/run\.py"):
        read("nothing")


@pytest.mark.parametrize(("document", "tables"), [("README.md", README), ("docs/benchmarks.md", PAGE)])
def test_documents_have_a_place_for_each_table(document: str, tables: dict[str, object]) -> None:
    """And no place without a table."""
    assert sorted(names_in((ROOT / document).read_text(encoding="utf-8"))) == sorted(tables)


@pytest.mark.parametrize("name", [*PAGE, *README])
def test_tables_have_rows_of_equal_length(name: str) -> None:
    """Each is a Markdown table whose first contestant is ours."""
    text = {**PAGE, **README}[name]()
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count(" | ") for line in lines}) <= 1
    assert "SPDL" in text or "load_image_batch" in text or "threads" in text


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_those_of_the_results(name: str) -> None:
    """Drawn by ``scripts/benchmark_tables``, and shown in the page."""
    drawn = (ROOT / f"docs/pictures/{name}.svg").read_text(encoding="utf-8")
    assert drawn == PICTURES[name]()
    assert f"(pictures/{name}.svg)" in (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")


def test_bars_are_as_long_as_their_numbers() -> None:
    """In proportion to the longest, from zero; names are escaped."""
    root = ElementTree.fromstring(bars("a < b", [Bar("them & us", 8.0, False), Bar("SPDL", 2.0, True)]))
    space = "{http://www.w3.org/2000/svg}"
    lengths = [float(each.attrib["width"]) for each in root.iter(f"{space}rect")]
    assert lengths == [95.0, 380.0]
    assert [each.text for each in root.iter(f"{space}text")] == ["a < b", "SPDL", "2", "them & us", "8 (4x)"]
