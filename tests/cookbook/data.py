"""Small data for the recipes: photographs, clips, sounds and texts of which a small model can learn something."""

import csv
import io
import json
import random
import shutil
import wave
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.media import clip
from tests.support.shards import tar_of

__all__ = ["BUCKET", "LOCAL", "PAGES", "put"]

_PICTURES = Path(__file__).parents[2] / "docs" / "guides" / "pictures"


def photographs(count: int) -> Iterator[tuple[str, bytes]]:
    """JPEGs of parts of two photographs, in turn: what is on it, and the file."""
    draw = random.Random(0)
    whole = {}
    for name, file in (("cat", "interpolations.jpg"), ("coffee", "fast_and_exact.jpg")):
        with Image.open(_PICTURES / file) as image:
            whole[name] = image.convert("RGB")
    for number in range(count):
        name = ("cat", "coffee")[number % 2]
        left, top = draw.randrange(100), draw.randrange(60)
        encoded = io.BytesIO()
        whole[name].crop((left, top, left + 100 + number, top + 90)).save(encoded, "JPEG")
        yield name, encoded.getvalue()


def image_folder(folder: Path, count: int, *, damaged: bool) -> None:
    """``train/<class>/<number>.jpg``."""
    for number, (name, data) in enumerate(photographs(count)):
        path = folder / "train" / name / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if damaged:
        (folder / "train" / "cat" / "000.jpg").write_bytes(b"not an image")


def shards(num_shards: int, samples: int) -> dict[str, bytes]:
    """Shards of photographs, by name."""
    photos = [(f"{number:05}", name, data) for number, (name, data) in enumerate(photographs(num_shards * samples))]
    found = {}
    for shard in range(num_shards):
        files: list[tuple[str, bytes]] = []
        for key, name, data in photos[shard::num_shards]:
            files += [(f"{key}.jpg", data), (f"{key}.cls", b"%d" % (name == "coffee"))]
        found[f"train-{shard:06}.tar"] = tar_of(files)
    return found


def videos(folder: Path) -> None:
    """Videos of three kinds, of which one file is damaged, and ``videos.csv``."""
    rows = []
    kinds = {"bars": "smptebars", "mandelbrot": "mandelbrot", "test": "testsrc2"}
    for name, source in kinds.items():
        for rate in (24, 25, 30):
            made = clip(
                "video.mp4", "-f", "lavfi", "-i", f"{source}=size=96x72:rate={rate}", "-t", "2",
                "-c:v", "libx264", "-g", "12", "-bf", "2", "-pix_fmt", "yuv420p",
            )  # fmt: skip
            path = folder / f"{name}-{rate}.mp4"
            path.write_bytes(made.read_bytes())
            rows.append((path.name, name))
    (folder / "torn.mp4").write_bytes((folder / "bars-24.mp4").read_bytes()[:500])
    _write_csv(folder / "videos.csv", [*rows, ("torn.mp4", "bars")])


def sounds(folder: Path) -> None:
    """Vowels, as a buzz with formants, of several lengths and sample rates, and ``speech.csv``."""
    rows = []
    draw = np.random.default_rng(0)
    for number in range(24):
        name, formants = (("a", (700, 1200)), ("i", (300, 2300)))[number % 2]
        rate = (8000, 16000, 44100)[number % 3]
        times = np.arange(int(rate * draw.uniform(0.5, 2))) / rate
        pitch = draw.uniform(90, 200)
        harmonics = pitch * np.arange(1, int(3500 / pitch))
        gains = np.sum([1 / (1 + ((harmonics - formant) / 120) ** 2) for formant in formants], 0)
        sound = (gains[:, None] * np.sin(2 * np.pi * harmonics[:, None] * times)).sum(0)
        path = folder / f"{name}-{number:02}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes((sound / np.abs(sound).max() * 30000).astype("<i2").tobytes())
        rows.append((path.name, name))
    _write_csv(folder / "speech.csv", rows)


def _write_csv(path: Path, rows: list[tuple[str, str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


_TEXT = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they
which one you were her all she there would their we him been has when who will more no if out so said what its about
into than them can only other new some could time these two may then do first any my now such like our over"""
_WORDS = _TEXT.split()


def documents() -> list[str]:
    """Texts of some words to some hundred, most of them short."""
    draw = random.Random(0)
    return [" ".join(draw.choices(_WORDS, k=int(draw.lognormvariate(4, 1)) + 1)) for _ in range(500)]


def texts(folder: Path) -> None:
    """``corpus-<number>.jsonl``, ``corpus.parquet`` and ``tokenizer.json``."""
    import pyarrow
    import pyarrow.parquet
    from tokenizers import Tokenizer, models, pre_tokenizers

    corpus = documents()
    for part in range(2):
        lines = (json.dumps({"text": text}) + "\n" for text in corpus[part::2])
        (folder / f"corpus-{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.table({"text": corpus}), folder / "corpus.parquet", row_group_size=50)
    vocabulary = {word: number for number, word in enumerate(["<pad>", *sorted(set(_WORDS))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def table_of_images(folder: Path) -> None:
    """``images.parquet``, as ``datasets`` keeps images."""
    import pyarrow
    import pyarrow.parquet

    rows = [
        {"image": {"bytes": content, "path": None}, "label": int(name == "coffee")} for name, content in photographs(80)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "images.parquet", row_group_size=10)


def server(folder: Path) -> None:
    """``server.py``, which writes ``urls.txt`` and serves what it names."""
    shutil.copy(Path(__file__).with_name("server.py"), folder)


def folder_of_shards(folder: Path) -> None:
    """``train/train-<number>.tar``."""
    (folder / "train").mkdir()
    for name, content in shards(4, 16).items():
        (folder / "train" / name).write_bytes(content)


#: Where the page on WebDataset has its shards, and how that is written where ``folder_of_shards`` has put them.
BUCKET, LOCAL = '"s3://bucket/train/"', '"file://" + os.path.abspath("train")'

#: What puts the files that the script of a page reads into a folder.
_FILES: dict[str, Callable[[Path], None]] = {
    "downloads": server,
    "hugging-face": table_of_images,
    "images": partial(image_folder, count=160, damaged=True),
    "jax": partial(image_folder, count=160, damaged=False),
    "speech": sounds,
    "text": texts,
    "video": videos,
    "webdataset": folder_of_shards,
}

#: The pages that have files.
PAGES = tuple(_FILES)


def put(page: str, folder: Path) -> None:
    """Put the files that the script of a page reads into an empty folder. The site offers the same to readers."""
    _FILES[page](folder)
