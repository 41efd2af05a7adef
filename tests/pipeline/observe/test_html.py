"""``PipelineStats.to_html``: what the page has, judged by an HTML parser and, where there is one, by a browser."""

import json
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import ItemFailure, Pipeline, PipelineBuilder, PipelineStats, StageInfo, StageStats, build_pipeline
from spdl.pipeline._observe._document import document_of
from spdl.pipeline._observe._html import graph
from spdl.pipeline._observe._stats import Moment
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

_VOID = {"meta", "br", "link", "img", "hr"}


class Reader(HTMLParser):
    """Collects tags, texts and addresses, and fails at a tag that is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.addresses: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def stats_of(*, history: tuple[Moment, ...] = (), name: str = "decode", error: str = "bad <b>&") -> PipelineStats:
    failure = ItemFailure(f"0:1:{name}", 17, "'</script>'", ValueError(error))
    common: dict[str, Any] = {"elapsed": 10.0, "num_emitted": 40, "occupied": 2.0, "queue_capacity": 2}
    stages = (
        StageStats(info=StageInfo(0, "0", "src"), **common),
        StageStats(
            info=StageInfo(0, "1", name, 4), inputs=("0",), num_calls=41, num_failures=1, num_success=40, busy=30.0,
            wall_time=30.0, starved=1.0, failures=(failure,), **common,
        ),
        StageStats(info=StageInfo(0, "2", "sink"), inputs=("1",), **common),
    )  # fmt: skip
    return PipelineStats(
        elapsed=10.0, state="running", num_threads=8, num_items=40, consumer_wait=6.0, stages=stages, history=history
    )


HISTORY = tuple(Moment(float(k), 4 * k, 0.6 * k, (4 * k, 4 * k, 4 * k)) for k in range(1, 11))


def test_page_is_one_well_formed_file(tmp_path: Path) -> None:
    """Every tag is closed, and it needs no other file and no network."""
    text = stats_of(history=HISTORY).to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    found = Reader(text)
    assert found.addresses == []
    assert "url(" not in text
    assert "@import" not in text
    assert text.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert {"link", "img", "iframe"}.isdisjoint(found.tags)


def test_page_shows_stages_rates_waits_failures_and_the_limit() -> None:
    """As text that a reader finds."""
    found = Reader(stats_of(history=HISTORY).to_html())
    assert found.texts["h2"] == ["Stages", "Rates over time", "Waits of the consumer over time", "Newest failures"]
    assert "Limiting stage: decode" in found.texts["div"]
    assert {"decode", "17", "ValueError: bad <b>&"} <= set(found.texts["td"])
    assert "decode [4]" in found.texts["text"]
    assert {"40", "4/s", "60 %", "10.0 s"} <= set(found.texts["b"])


def test_text_of_users_cannot_become_markup() -> None:
    """Names, items and messages are escaped, also in the data at the end."""
    text = stats_of(name="<script>alert(1)</script>", error="</script><b>").to_html()
    found = Reader(text)
    assert found.tags.count("script") == 1
    [document] = json.loads("".join(found.texts["script"]))
    assert document["stages"][1]["name"] == "<script>alert(1)</script>"


def test_page_is_light_and_dark() -> None:
    """As the reader's system has it."""
    text = stats_of().to_html()
    assert "color-scheme:light dark" in text
    assert text.count("@media(prefers-color-scheme:dark)") == 3


def test_one_moment_has_no_rates_over_time() -> None:
    """The page says what to do about it."""
    found = Reader(stats_of().to_html())
    assert "Rates over time" not in found.texts["h2"]
    assert any("There are no rates over time" in text for text in found.texts["p"])


def test_sentence_about_the_limit_is_shown() -> None:
    """If the statistics can explain themselves."""

    stats = replace(stats_of(), explain=lambda stats: (None, "decode is GIL-bound"))
    assert document_of(stats)["verdict"] == "decode is GIL-bound"
    assert document_of(replace(stats, explain=None))["verdict"] is None


def test_notebooks_show_the_report() -> None:
    """Of statistics and of pipelines: a part of a page, whose style touches nothing else."""
    pipeline = PipelineBuilder().add_source(range(3)).add_sink().build()
    assert list(pipeline) == [0, 1, 2]
    for text in (pipeline._repr_html_(), pipeline.stats()._repr_html_()):
        found = Reader(text)
        assert found.tags[0] == "div"
        assert "html" not in found.tags
        rules = "".join(found.texts["style"]).replace("@media(prefers-color-scheme:dark){", "").split("}")
        selectors = [each for rule in rules for each in rule.partition("{")[0].split(",") if each]
        assert [each for each in selectors if not each.startswith((".spdl-report", ".spdl-svg"))] == []


def test_graph_has_branches_side_by_side() -> None:
    """A box per stage; what a merge reads is left of it."""
    merged = Merge([PipelineConfig(SourceConfig(range(2)), [Pipe(str)], SinkConfig(1)) for _ in range(2)])
    pipeline: Pipeline[Any] = build_pipeline(PipelineConfig(merged, [], SinkConfig(1)))
    assert len(list(pipeline)) == 4
    image = ElementTree.fromstring(graph(document_of(pipeline.stats())))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [each for each in image.iter(f"{space}rect") if "box" in each.attrib["class"]]
    places = {(each.attrib["x"], each.attrib["y"]) for each in boxes}
    assert len(boxes) == len(places) == 6
    assert len({x for x, _ in places}) == 4
    assert len([each for each in image.iter(f"{space}path") if each.attrib["class"] == "edge"]) == 5


@pytest.mark.parametrize("calls", [1, 4, 64])
def test_names_fit_in_their_boxes(calls: int) -> None:
    """With the number of calls at once, whatever it is; the whole name is shown when it is pointed at."""
    name = "decode_and_resize_whatever_comes"
    stage = StageStats(info=StageInfo(0, "0", name, calls if calls > 1 else None), elapsed=1.0)
    image = ElementTree.fromstring(graph(document_of(replace(stats_of(), stages=(stage,)))))
    space = "{http://www.w3.org/2000/svg}"
    (shown,) = (text.text or "" for text in image.iter(f"{space}text") if text.get("class") == "bold")
    assert shown.startswith("decode_and_")
    assert shown.endswith("\N{HORIZONTAL ELLIPSIS}" if calls == 1 else f"\N{HORIZONTAL ELLIPSIS} [{calls}]")
    assert len(shown) <= 20
    assert any((title.text or "").startswith(f"{name}: ") for title in image.iter(f"{space}title"))


def test_statistics_have_the_history_of_the_pipeline() -> None:
    """The moments of earlier calls, oldest first."""
    pipeline = PipelineBuilder().add_source(range(9)).add_sink(1).build()
    for _ in range(3):
        pipeline.get_item()
        stats = pipeline.stats()
    assert [moment.elapsed for moment in stats.history] == sorted({moment.elapsed for moment in stats.history})
    assert stats.history[-1].num_items == stats.num_items == 3
    assert (stats - stats).history == stats.history[-1:]
    pipeline.stop()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium is installed")
def test_browser_shows_the_page_without_an_error(tmp_path: Path) -> None:
    """Headless Chromium finds the headings and boxes, and asks for nothing else."""
    stats_of(history=HISTORY).to_html(tmp_path / "page.html")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--enable-logging=stderr", "--virtual-time-budget=1000", "--dump-dom"]
    shown = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = Reader(shown.stdout)
    assert "Rates over time" in found.texts["h2"]
    assert found.tags.count("svg") == 3
    assert ":CONSOLE" not in shown.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium is installed")
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_browser_draws_the_page_in_the_colours_of_the_reader(is_dark: bool, tmp_path: Path) -> None:
    """The page is nearly white or nearly black, as its reader prefers, and text of the other kind is on it."""
    image = pytest.importorskip("PIL.Image")
    stats_of(history=HISTORY).to_html(tmp_path / "page.html")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--hide-scrollbars", "--window-size=900,900", f"--screenshot={tmp_path / 'page.png'}"]
    command += [f"--blink-settings=preferredColorScheme={int(not is_dark)}"]  # 0: dark
    subprocess.run([*command, (tmp_path / "page.html").as_uri()], capture_output=True, timeout=120, check=True)
    with image.open(tmp_path / "page.png") as picture:
        counts = picture.convert("L").histogram()
    dark, light = sum(counts[:64]), sum(counts[192:])
    page, text = (dark, light) if is_dark else (light, dark)
    assert page > 0.75 * sum(counts)
    assert 0.003 * sum(counts) < text < 0.2 * sum(counts)
