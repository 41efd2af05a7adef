"""Cases, peers and requirements. To add a peer, change only this file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks._contest.columns import Median, Rate, Share, Spread
from benchmarks._contest.contest import Case, Contest, Outputs, Peer, Required
from benchmarks._contest.environments import CHECKOUT, Environment
from benchmarks._contest.environments import REFERENCE as REFERENCE_ENVIRONMENT
from benchmarks._contest.figures import NOTHING, Figure
from benchmarks._contest.required import AtMost, Ratio
from benchmarks._contest.result import Result

from ._session import NUM_CHECKED
from ._shapes import SHAPES, SINK_SIZE, Shape

__all__ = ["CONTEST", "OURS", "REFERENCE", "TORCH", "check_items"]

OURS = "spdl"
REFERENCE = "reference"
TORCH = Environment("torch", ("numpy", "torch>=2.2", "torchdata>=0.10"), is_optional=True)


def _where(*packages: str) -> Environment:
    """This interpreter if it has the packages."""
    return CHECKOUT if all(find_spec(package) is not None for package in packages) else TORCH


_ADAPTERS = "benchmarks.engine.adapters"
_DATALOADER = f"{_ADAPTERS}.torch_dataloader"

PEERS = (
    Peer(OURS, f"{_ADAPTERS}.spdl_pipeline"),
    Peer(REFERENCE, f"{_ADAPTERS}.spdl_pipeline", REFERENCE_ENVIRONMENT),
    Peer("futures", f"{_ADAPTERS}.futures"),
    Peer("torchdata", f"{_ADAPTERS}.torchdata_nodes", _where("torch", "torchdata")),
    Peer("dataloader-0", _DATALOADER, _where("torch"), {"num_workers": 0}),
    Peer("dataloader-2", _DATALOADER, _where("torch"), {"num_workers": 2}),
)


def check_items(shape: Shape, outputs: Outputs) -> str | None:
    """Each item once, in order where the shape promises it, in full batches except the last."""
    items, sizes = outputs["items"].tolist(), outputs["batch_sizes"].tolist()
    if sorted(items) != list(range(NUM_CHECKED)):
        return f"it emitted {len(items)} items, which are not the integers below {NUM_CHECKED}"
    if shape.promises_order and items != sorted(items):
        return "it emitted the items in another order"
    expected = []
    if shape.batch_size is not None:
        full, rest = divmod(NUM_CHECKED, shape.batch_size)
        expected = [shape.batch_size] * full + [rest] * (rest > 0)
    return None if sizes == expected else f"it emitted batches of {sizes}, expected {expected}"


def _case(shape: Shape) -> Case:
    about = asdict(shape) | {"sink": SINK_SIZE}
    del about["name"], about["title"]
    return Case(shape.name, shape.title, about=about, check=lambda outputs: check_items(shape, outputs))


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    return [
        *map(_case, SHAPES),
        Case("first_item", "build + first item + stop, ms", {"repeats": 2 if is_quick else 10}, cost="ms"),
        Case("import", "import of the pipeline package, ms", peers=(OURS, REFERENCE), cost="ms", rounds=10),
        Case(
            "zlib",
            "zlib.compress on 1 MB",
            {"num_items": 2 if is_quick else 48},
            cost="two_us",
            columns=(
                Rate("MB/s, 1 thread (min to max)", "one_us"),
                Rate("MB/s, 2 threads (min to max)", "two_us"),
                Share("2 threads over 1 (min to max)", "one_us", "two_us"),
            ),
        ),
    ]


@dataclass(frozen=True, slots=True)
class WallAndCpu:
    """Wall time with its spread, and CPU time."""

    title: str = "wall (min to max) / CPU"

    def cell(self, result: Result, case: str, peer: str) -> str:
        cpu = Median("", "cpu_us").cell(result, case, peer)
        return NOTHING if cpu == NOTHING else f"{Spread('', 'wall_us').cell(result, case, peer)} / {cpu}"


@dataclass(frozen=True, slots=True)
class CleanImport:
    """The requirement that the import brings no forbidden module."""

    def cases(self) -> Sequence[str]:
        return ("import",)

    def measured(self, result: Result) -> Figure:
        title, brought = "import brings numpy, torch or spdl.io", result.values("import", OURS, "brought")
        if not brought:
            return Figure(title, "0", None, None, " modules", passed=False)
        names = sorted({name for each in brought for name in each.split(", ") if name})
        shown = f"{title} (it imports {', '.join(names)})" if names else title
        return Figure(shown, "0", len(names), None, " modules", passed=not names)


REQUIRED: tuple[Required, ...] = (
    *(
        Ratio(f"{shape.title}: reference / ours", (shape.name, REFERENCE), (shape.name, OURS), shape.required)
        for shape in SHAPES
    ),
    AtMost("three sync stages", ("sync3_c1", OURS), 5.0),
    *(AtMost(shape.title, (shape.name, OURS), 10.0) for shape in SHAPES if shape.kind == "async"),
    AtMost("build + first item + stop", ("first_item", OURS, "ms"), 2.0, unit=" ms"),
    AtMost("import spdl.pipeline, fresh process", ("import", OURS, "ms"), 80.0, unit=" ms"),
    CleanImport(),
    Ratio("zlib.compress on 1 MB, 2 threads / 1 thread, ours", ("zlib", OURS, "one_us"), ("zlib", OURS, "two_us"), 1.9),
)

CONTEST = Contest(
    name="engine",
    question="What does an item cost in the engine, against peers that do the same no-op work?",
    ours=OURS,
    unit="an item",
    peers=PEERS,
    make_cases=make_cases,
    required=REQUIRED,
    sessions="benchmarks.engine._session",
    rounds=7,
    seconds=0.5,
    cell=WallAndCpu(),
)
