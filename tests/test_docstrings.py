"""The examples in public docstrings run as printed, and ``help()`` shows what a public callable takes.

The examples of one docstring are one program. It has the public names of all packages, NumPy as ``np``, ``Path``, and
``resume``, ``metrics`` and ``spdl``; and what readers have and an example need not make, ``STAND_INS``: paths, a
pipeline, a function that trains. It runs in a folder with photographs, clips, shards and tables, with warnings as
errors. Those in ``NOT_RUN`` are compiled only, each for a reason.
"""

import contextlib
import gc
import importlib
import importlib.util
import inspect
import itertools
import json
import os
import re
import shutil
import tarfile
import textwrap
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedKeyedSampler
from tests.support.media import clip, pictures, tones
from tests.support.object_server import warm_up
from tests.test_site import load as load_script

MODULES: tuple[str, ...] = load_script("docs/site/assemble.py").MODULES

#: The modules whose public names examples use; of names that several have, the last one's is meant.
NAMESPACES = (
    "spdl.io",
    "spdl.source",
    "spdl.source.utils",
    "spdl.dataloader",
    "spdl.remote",
    "spdl.pipeline.defs",
    "spdl.pipeline.batching",
    "spdl.pipeline",
)
#: Examples that are compiled only.
NOT_RUN = {
    "spdl.debug": "installs a handler of a signal in the process of the tests",
    "spdl.metrics.prometheus": "opens a port",
    "spdl.metrics.opentelemetry": "a meter cannot be rid of its instruments",
    "spdl.metrics.merge_traces": "torch's profiler takes seconds",
    "spdl.source.LanceRows": "reads a bucket",
    "spdl.io.transfer_tensor_d2h": "needs a GPU",
    "spdl.io.transfer_tensor_h2d": "needs a GPU",
    "spdl.pipeline.PipelineStats.to_dict": "needs an account",
}
#: Pipelines that are built only.
NOT_READ = {
    "spdl.source.ShardStream": "reads a web server",
    "spdl.pipeline.PipelineBuilder.to": "starts processes",
    "spdl.pipeline.PriorityThreadPoolExecutor": "its pool ends with the example",
}
#: Names that most programs use.
EXEMPLARY = """
spdl.io: load_image_batch ImageTransform load_image save_image load_video load_video_clips load_audio load_audio_batch
    demux_video decode_packets sample_decode_video probe sample_seeds
spdl.pipeline: PipelineBuilder PipelineBuilder.add_source PipelineBuilder.pipe PipelineBuilder.aggregate
    PipelineBuilder.disaggregate PipelineBuilder.path_variants PipelineBuilder.to PipelineBuilder.add_sink
    PipelineBuilder.build Pipeline Pipeline.stats Pipeline.verdict Pipeline.state_dict run_pipeline_in_subprocess
    iterate_in_subprocess
spdl.source: DistributedRandomSampler DistributedDeterministicSampler DistributedKeyedSampler KeyedPermutation KeyedMix
    TarIndex ShardOrder ShardMix ShardStream ShuffleBuffer ImageFolder JsonLines ParquetRows
spdl.dataloader: DataLoader CacheDataLoader get_pytorch_dataloader prefetch_to_device
spdl.remote: RemoteStore DiskCache
spdl.resume: save load gather skip
"""


def public_things() -> Iterator[tuple[str, Any]]:
    """All public modules, their names and the methods of those that are classes; each object once."""
    seen: set[int] = set()
    for module in map(importlib.import_module, MODULES):
        yield module.__name__, module
        for name in module.__all__:
            thing = getattr(module, name)
            if id(thing) in seen or inspect.ismodule(thing):
                continue
            seen.add(id(thing))
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                for member in vars(thing):
                    if not member.startswith("_"):
                        yield f"{module.__name__}.{name}.{member}", getattr(thing, member)


def program_of(docstring: str) -> str:
    """The literal blocks and the Python blocks of a docstring, in order."""
    blocks: list[str] = []
    lines = docstring.splitlines()
    for number, line in enumerate(lines):
        is_literal = line.endswith("::") and not line.lstrip().startswith("..")
        if not is_literal and line.strip() != ".. code-block:: python":
            continue
        indent = len(line) - len(line.lstrip())
        block: list[str] = []
        for each in lines[number + 1 :]:
            if each.strip() and len(each) - len(each.lstrip()) <= indent:
                break
            block.append(each)
        blocks.append(textwrap.dedent("\n".join(block)))
    return "\n".join(blocks)


PROGRAMS = {
    name: program
    for name, thing in public_things()
    if (isinstance(thing, ModuleType) or callable(thing) or inspect.isdatadescriptor(thing))
    and (program := program_of(inspect.getdoc(thing) or "")).strip()
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples read."""
    folder = tmp_path_factory.mktemp("data")
    if importlib.util.find_spec("obstore") is not None:
        warm_up()
    (folder / "photos").mkdir()
    for number in range(8):
        Image.linear_gradient("L").convert("RGB").resize((60 + number, 80)).save(folder / f"photos/{number}.jpg")
    photo = (folder / "photos/0.jpg").read_bytes()
    (folder / "imagenet/train").mkdir(parents=True)
    for name in ("ant", "cat"):
        shutil.copytree(folder / "photos", folder / "imagenet/train" / name)
    (folder / "shards").mkdir()
    for number in range(100):
        with tarfile.open(folder / f"shards/train-{number:06}.tar", "w") as shard:
            for extension, content in (("jpg", photo), ("cls", b"7")):
                member = tarfile.TarInfo(f"{number:05}.{extension}")
                member.size = len(content)
                shard.addfile(member, BytesIO(content))
    for number in range(16):
        (folder / f"corpus-{number:02}.jsonl").write_text(json.dumps({"text": "hello"}) + "\n")
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow
        from pyarrow import parquet

        for number in range(16):
            parquet.write_table(pyarrow.table({"text": ["hello"]}), folder / f"table-{number:02}.parquet")
    (folder / "clips").mkdir()
    for made in (
        clip("video.mp4", *pictures("320x240", "25"), *tones(16000), "-c:v", "libx264", "-g", "12", "-bf", "2",
             "-pix_fmt", "yuv420p", "-c:a", "aac"),
        clip("speech.wav", *tones(16000)),
        clip("music.flac", *tones(44100, expression="sin(440*2*PI*t)|sin(550*2*PI*t)")),
    ):  # fmt: skip
        shutil.copy(made, folder / "clips")
    return folder


def read_photo(path: Path) -> Any:
    """What readers call ``load``."""
    return spdl.io.to_numpy(spdl.io.load_image_batch([path], width=32, height=32))[0]


def a_builder() -> PipelineBuilder[Any, Any]:
    return PipelineBuilder().add_source(DistributedKeyedSampler(8)).aggregate(4).add_sink()


def a_loader(data: Path) -> Any:
    from spdl.dataloader import get_pytorch_dataloader

    return get_pytorch_dataloader([1, 2, 3, 4], 2, num_workers=2, workers="thread")


#: What readers have, by name; made from the folder of the data where an example has the name.
STAND_INS: dict[str, Callable[[Path], Any]] = {
    "paths": lambda data: sorted(data.glob("photos/*.jpg")),
    "videos": lambda data: [data / "clips/video.mp4"] * 2,
    "sounds": lambda data: [data / "clips/speech.wav", data / "clips/music.flac"],
    "indices": lambda data: range(8),
    "seed": lambda data: 0,
    "epoch": lambda data: 0,
    "rank": lambda data: 0,
    "world_size": lambda data: 1,
    "num_epochs": lambda data: 2,
    "load": lambda data: read_photo,
    "decode": lambda data: read_photo,
    "train": lambda data: lambda *batch: 0,
    "dataset": lambda data: [(np.zeros(3, np.float32), label) for label in range(8)],
    "codec": lambda data: spdl.io.demux_video(data / "clips/video.mp4").codec,
    "frames": lambda data: spdl.io.decode_packets(spdl.io.demux_video(data / "clips/video.mp4"), None),
    "builder": lambda data: a_builder(),
    "pipeline": lambda data: a_builder().build(num_threads=1, resumable=True),
    "loader": a_loader,
}


def names_for(program: str, data: Path) -> dict[str, Any]:
    """The names that a program has before it begins."""
    names: dict[str, Any] = {"__name__": "example", "np": np, "Path": Path, "spdl": spdl}
    for module in NAMESPACES:
        found = importlib.import_module(module)
        names |= {name: getattr(found, name) for name in found.__all__ if re.search(rf"\b{name}\b", program)}
    names |= {"resume": importlib.import_module("spdl.resume"), "metrics": importlib.import_module("spdl.metrics")}
    return names | {name: make(data) for name, make in STAND_INS.items() if re.search(rf"\b{name}\b", program)}


def read_some(builder: PipelineBuilder[Any, Any]) -> None:
    """Items of a pipeline that an example describes. A failure raises."""
    with contextlib.suppress(ValueError):  # it has a sink
        builder.add_sink()
    pipeline = builder.build(num_threads=2, max_failures=0)
    with pipeline.auto_stop():
        assert list(itertools.islice(pipeline, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NOT_RUN])
def test_example_in_docstring_runs(
    name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A reader of ``help()`` who copies an example sees it work."""
    program = PROGRAMS[name]
    for package, words in (("torch", "get_pytorch_dataloader|loader|torch"), ("pyarrow", "ParquetRows")):
        if re.search(rf"\b({words})\b", program):
            pytest.importorskip(package)
    if "RemoteStore" in program:
        pytest.importorskip("obstore")
    for each in data.iterdir():
        os.symlink(each, tmp_path / each.name)
    monkeypatch.chdir(tmp_path)
    names = names_for(program, tmp_path)
    try:
        exec(compile(program, f"<docstring of {name}>", "exec"), names)
        if isinstance(builder := names.get("builder"), PipelineBuilder) and name not in NOT_READ:
            read_some(builder)
    finally:
        for thing in names.values():
            with contextlib.suppress(AttributeError, TypeError):
                thing.stop()
        names.clear()
        gc.collect()


@pytest.mark.parametrize("name", PROGRAMS)
def test_example_in_docstring_compiles(name: str) -> None:
    """Those that are not run too."""
    compile(PROGRAMS[name], f"<docstring of {name}>", "exec")


def test_examples_that_are_not_run_are_there() -> None:
    """A name that has moved would have its example run, or not, by chance."""
    assert set(NOT_RUN) <= set(PROGRAMS)


def test_what_most_programs_use_has_an_example() -> None:
    """For those who read ``help()`` before anything else."""
    wanted = []
    for line in re.split(r"\n(?=\S)", EXEMPLARY.strip()):
        module, _, names = line.partition(":")
        wanted += [f"{module}.{name}" for name in names.split()]
    assert [name for name in wanted if name not in PROGRAMS] == []


def is_hidden(thing: Any) -> bool:
    """Whether ``help()`` shows only that there are arguments."""
    if get_origin(thing) is not None:  # a name for a type, which is not called
        return False
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):  # native code, and errors without a constructor of their own
        return "*args" in first_line_of_help(thing)
    kinds = {each.kind for each in parameters if each.name != "self"}
    is_general = bool(kinds) and kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    # Of native code Python 3.13 says that it takes anything, where older ones say that they do not know.
    return is_general and not re.match(r"\w+\((?!.*\*args)", first_line_of_help(thing))


def first_line_of_help(thing: Any) -> str:
    """Where native code has its signature."""
    native = thing.__init__ if inspect.isclass(thing) else thing
    return (inspect.getdoc(native) or "").partition("\n")[0]


def test_help_shows_what_public_callables_take() -> None:
    """None is ``(*args, **kwargs)``. Protocols are not called."""
    hidden = [
        name
        for name, thing in public_things()
        if callable(thing) and not getattr(thing, "_is_protocol", False) and is_hidden(thing)
    ]
    assert hidden == []


def test_literal_blocks_and_python_blocks_are_examples() -> None:
    """Other blocks are not."""
    text = "One::\n\n    a = 1\n\nTwo.\n\n.. code-block:: python\n\n    b = 2\n\n.. code-block:: text\n\n    c\n"
    assert program_of(text).split("\n") == ["", "a = 1", "", "", "b = 2", ""]
