"""Each page of the cookbook works: its script is run as its reader runs it, and prints what the page says."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from spdl.pipeline import read_quarantine
from tests.cookbook import data
from tests.cookbook.downloads import serve_downloads
from tests.cookbook.pages import FOLDER, numbers_of, page
from tests.cookbook.server import BUSY, CUT_OFF, FILES
from tests.support.child import run_file
from tests.support.object_server import ObjectServer, serve

pytestmark = pytest.mark.slow


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """The folder in which a reader runs a script."""
    folder = tmp_path / "reader"
    folder.mkdir()
    return folder


def test_index_has_every_page() -> None:
    """The cookbook's README links to each page, and each page is tested."""
    names = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\]\(([a-z-]+)\.md", readme))) == names
    tests = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in names if f'page("{name}")' not in tests] == []


def test_images(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks learn, pass over a damaged image, and go on from a checkpoint as if nobody had killed them."""
    pytest.importorskip("torch")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    data.put("images", reader)
    other = reader.with_name("other")
    other.mkdir()
    (other / "train").symlink_to(reader / "train")
    recipe = page("images")
    runs = (str(reader), None), (str(other), "step 10 "), (str(other), None)
    script = reader.with_name("ranks.py")
    call = f"main({str(recipe.save(reader))!r}, *{runs!r})"
    script.write_text(f"import torch\nfrom tests.cookbook.ranks import main\nraise SystemExit({call})\n")
    ended = run_file(script, folder=reader)
    assert ended.returncode == 0, ended

    undisturbed, killed, again = (run.split("\n") for run in re.split(r"\n+---\n", ended.stdout)[:3])
    recipe.check("\n".join(undisturbed))
    losses = numbers_of("loss", ended.stdout)[:15]
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])
    failed = {line.key for rank in (0, 1) for line in read_quarantine(reader / f"bad-{rank}.jsonl")}
    assert failed == {0}
    assert killed == undisturbed[:10]
    assert again == undisturbed[8:]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server as S3, which the environment variables name."""
    pytest.importorskip("obstore")
    with serve() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield server


def test_webdataset(reader: Path, bucket: ObjectServer) -> None:
    """Shards of a bucket are read once, in an order that goes on exactly behind what was saved."""
    pytest.importorskip("torch")
    shards = reader.with_name("shards")
    shards.mkdir()
    data.put("webdataset", shards)
    for path in shards.rglob("*.tar"):
        bucket.objects[f"bucket/train/{path.name}"] = path.read_bytes()
    recipe = page("webdataset")
    first = recipe.run(reader).stdout.splitlines()
    assert (
        sorted(re.findall(r"\d", " ".join(line.partition("labels")[2] for line in first[:8])))
        == ["0"] * 32 + ["1"] * 32
    )
    saved = json.loads((reader / "data.json").read_text().splitlines()[1])
    assert saved["step"] == 15
    requests = len(bucket.requests)
    again = run_file(recipe.save(reader), folder=reader)
    assert again.stdout.splitlines()[:-1] == first[15:16], again
    assert not [each for each in bucket.requests[requests:] if each.path.endswith(".tar") and "range" in each.headers]


def test_webdataset_on_the_disk(reader: Path) -> None:
    """What the site tells its readers to write for the bucket, with the shards that it offers to them."""
    pytest.importorskip("obstore")
    pytest.importorskip("torch")
    data.put("webdataset", reader)
    recipe = page("webdataset")
    assert recipe.script.count(data.BUCKET) == 1
    replace(recipe, script=recipe.script.replace(data.BUCKET, data.LOCAL)).run(reader)


def test_video(reader: Path) -> None:
    """A model learns from clips, and a damaged video is replaced."""
    pytest.importorskip("torch")
    data.put("video", reader)
    printed = page("video").run(reader).stdout
    losses = numbers_of("loss", printed)
    assert min(losses[4:]) < 0.8 * losses[0]
    assert {line.key for line in read_quarantine(reader / "bad.jsonl")} == {9}


def test_speech(reader: Path) -> None:
    """A model learns from padded batches at one sample rate."""
    pytest.importorskip("torch")
    data.put("speech", reader)
    losses = numbers_of("loss", page("speech").run(reader).stdout)
    assert losses[-1] < 0.3


def test_text(reader: Path) -> None:
    """Documents of both formats are packed, and packing goes on."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("pyarrow")
    data.put("text", reader)
    page("text").run(reader)


def test_downloads(reader: Path) -> None:
    """What passes is tried again, what does not is noted; the second run does nothing."""
    with serve_downloads(reader) as asked:
        recipe = page("downloads")
        recipe.run(reader)
        files = {path.name: path.read_bytes() for path in (reader / "downloaded").iterdir()}
        assert files == FILES
        assert {line.error for line in read_quarantine(reader / "failed.jsonl")} == {"HTTPError"}
        assert {name for name, count in asked.items() if count > 1} >= BUSY | CUT_OFF
        asked.clear()
        again = run_file(recipe.save(reader), folder=reader)
        assert (again.returncode, again.stdout) == (0, "0 files, 0 bytes; 0 failed\n"), again
        assert not asked


def test_server_of_downloads(reader: Path) -> None:
    """The file that readers get serves what the page needs."""
    data.put("downloads", reader)
    with Popen([sys.executable, "server.py", "0"], cwd=reader, stdout=PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "urls.txt has 40 URLs; serving them until Ctrl-C\n"
            page("downloads").run(reader)
        finally:
            server.terminate()


def test_hugging_face(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset on the disk and a stream, both resumed."""
    pytest.importorskip("datasets")
    pytest.importorskip("torch")
    data.put("hugging-face", reader)
    monkeypatch.setenv("HF_HOME", str(reader / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    page("hugging-face").run(reader, may_warn="default")


def test_jax(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model learns on two devices."""
    pytest.importorskip("jax")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    data.put("jax", reader)
    losses = numbers_of("loss", page("jax").run(reader, may_warn="default").stdout)
    assert losses[-1] < 0.9 * losses[0]
