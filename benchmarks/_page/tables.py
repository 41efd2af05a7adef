"""One function per table. Costs are medians; a ratio is a peer's time over SPDL's, so SPDL is faster above 1."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks._contest.columns import round_ratios
from benchmarks._contest.figures import NOTHING, head, row, short
from benchmarks.migration._cells import LAST, TORCH, WORKERS, Cell
from benchmarks.migration._result import Result, in_todays_format

from .stored import Json, Stored, read

__all__ = ["PAGE", "README", "TITLES", "cost_of"]

#: The names of peers for readers.
TITLES = {
    "spdl": "SPDL",
    "spdl-born": "SPDL, made in `arena_slot`",
    "reference": "`spdl` 0.8.0",
    "reference-pool": "`spdl` 0.8.0, segment pool",
    "futures": "`concurrent.futures`",
    "torchdata": "torchdata nodes",
    "dataloader-0": "DataLoader, 0 workers",
    "dataloader-2": "DataLoader, 2 workers",
    "pillow": "Pillow",
    "pillow-draft": "Pillow, draft mode",
    "pillow-simd": "Pillow-SIMD",
    "opencv": "OpenCV",
    "simplejpeg": "simplejpeg and OpenCV",
    "torchcodec": "TorchCodec",
    "torchcodec-approximate": "TorchCodec, approximate seek",
    "dali": "DALI (CPU)",
    "tf-data": "tf.data",
    "ffcv": "FFCV, its own file format",
    "planes": "libjpeg-turbo, decoding alone",
    "pyav": "PyAV",
    "decord": "decord",
    "ffmpeg": "ffmpeg tool",
    "soundfile": "soundfile",
    "stdlib": "standard library, NumPy",
    "torch": "torch DataLoader, 1 worker",
    "queue": "`multiprocessing.Queue`",
}
_OURS = "spdl"


def cost_of(case: Json, peer: str, name: str = "wall_us") -> float | None:
    """Median cost in microseconds; ``None`` if the peer was not measured."""
    values = case["costs"].get(peer, {}).get(name)
    return median(values) if values else None


def _ratio(case: Json, of: str, over: str) -> float:
    """The median of the ratios of all rounds."""
    return median(round_ratios(*(case["costs"][peer]["wall_us"] for peer in (of, over))))


def _timed(stored: Stored) -> dict[str, str]:
    """The titles, by name, of the cases that are a cost per item."""
    return {name: case["title"] for name, case in stored.cases.items() if cost_of(case, _OURS) is not None}


def _with_ratio(value: float | None, ours: float) -> str:
    """``319 (71x)``."""
    return NOTHING if value is None else f"{short(value)} ({short(value / ours)}x)"


def _by_case(stored: Stored, names: Mapping[str, str], peers: Sequence[str]) -> str:
    """One row per case, one column per peer: microseconds, and the ratio to SPDL."""
    lines = head(["", *(TITLES[peer] for peer in peers)])
    for name, title in names.items():
        case = stored.cases[name]
        ours = cost_of(case, _OURS)
        assert ours is not None  # SPDL is in every stored result
        costs = [short(ours), *(_with_ratio(cost_of(case, peer), ours) for peer in peers[1:])]
        lines.append(row([title, *costs]))
    return "\n".join(lines)


def engine() -> str:
    stored = read("engine")
    titles = _timed(stored)
    peers = (_OURS, "reference", "futures", "torchdata", "dataloader-0", "dataloader-2")
    return f"{_by_case(stored, titles, peers)}\n\n{stored.source()}"


_WEB = {
    "web-eval-uint8": "evaluation, uint8",
    "web-eval-float32": "evaluation, float32",
    "web-train-uint8": "training, uint8",
    "web-train-float32": "training, float32",
}
_LARGE = {
    "screen-eval-uint8": "1024x768, evaluation",
    "screen-train-uint8": "1024x768, training",
    "phone-eval-uint8": "4000x3000, evaluation",
    "phone-train-uint8": "4000x3000, training",
}


def stills() -> str:
    """A table for each kind of work: one row per format and size, one column per peer."""
    stored = read("stills")
    peers = [peer for peer in TITLES if any(peer in case["costs"] for case in stored.cases.values())]
    parts = []
    for work, title in (("whole", "ms a picture, whole"), ("small", "at 224x224"), ("batch", "a batch at 224x224")):
        lines = head([title, *(TITLES[peer] for peer in peers)])
        for name, case in stored.cases.items():
            if name.endswith(f"-{work}"):
                lines.append(row([", ".join(case["title"].split(", ")[:2]), *_milliseconds(case, peers)]))
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, stored.source()])


def _milliseconds(case: Json, peers: Sequence[str]) -> list[str]:
    """Of each peer, and the ratio to SPDL."""
    cells = []
    for peer in peers:
        cost = cost_of(case, peer)
        ratio = "" if peer == _OURS or cost is None else f" ({short(_ratio(case, peer, _OURS))}x)"
        cells.append(NOTHING if cost is None else f"{short(cost / 1e3)}{ratio}")
    return cells


def _photographs(cases: Mapping[str, Json], titles: Mapping[str, str]) -> str:
    """One row per peer, one column per case: milliseconds per photograph, and the ratio to SPDL."""
    shown = [cases[name] for name in titles]
    lines = head(["ms a photograph", *titles.values()])
    for peer in (peer for peer in TITLES if any(peer in case["costs"] for case in shown)):
        lines.append(row([TITLES[peer], *(cell for case in shown for cell in _milliseconds(case, [peer]))]))
    return "\n".join(lines)


def images() -> str:
    stored = read("images")
    cases = stored.cases
    gains = [short(_ratio(cases[f"{name}-2"], "spdl-1", _OURS)) for name in _WEB]
    threads = f"Two threads inside the call are {', '.join(gains)} times as fast as one, in the order of the columns."
    return "\n\n".join([_photographs(cases, _WEB), threads, _photographs(cases, _LARGE), stored.source()])


def video() -> str:
    stored = read("video")
    titles = {name: case["title"] for name, case in stored.cases.items()}
    peers = (_OURS, "reference", "pyav", "torchcodec", "decord", "ffmpeg")
    return f"{_by_case(stored, titles, peers)}\n\n{stored.source()}"


def audio() -> str:
    stored = read("audio")
    titles = {name: case["title"] for name, case in stored.cases.items()}
    return f"{_by_case(stored, titles, (_OURS, 'reference', 'pyav', 'soundfile', 'torchcodec'))}\n\n{stored.source()}"


def archives() -> str:
    stored = read("archives")
    titles = {name: case["title"] for name, case in stored.cases.items()}
    return f"{_by_case(stored, titles, (_OURS, 'reference', 'stdlib'))}\n\n{stored.source()}"


def migration() -> str:
    stored = read("migration")
    result = Result(in_todays_format(stored.newest))
    lines = head(["images/s, batches of 64; workers or threads", *map(str, WORKERS)])
    titles = {
        TORCH: "torch's DataLoader",
        "drop-in": 'the same dataset, `workers="thread"`',
        LAST: "`load_image_batch`",
    }
    for peer, title in titles.items():
        rates = [result.value("rate", Cell(64, workers), peer) for workers in WORKERS]
        lines.append(row([title, *(NOTHING if rate is None else short(rate) for rate in rates)]))
    for measure, title in (("first", "first batch, times sooner than torch's"), ("memory", "memory, share of torch's")):
        cells = []
        for workers in WORKERS:
            batch = 64 if measure == "first" else 32
            ours, theirs = (result.value(measure, Cell(batch, workers), peer) for peer in (LAST, TORCH))
            if ours is None or theirs is None:
                cells.append(NOTHING)
            else:
                cells.append(f"{short(theirs / ours)}x" if measure == "first" else f"{short(ours / theirs)}x")
        lines.append(row([title, *cells]))
    return "\n".join(lines) + f"\n\n{stored.source()}"


def placement() -> str:
    stored = read("placement")
    ways = {"threads": "threads", "subprocess": "a subprocess", "region": "a region of 2 workers"}
    work = {"photos": "photographs, one native call a batch", "python": "0.3 ms of Python a sample"}
    columns = ["samples/s", "CPU s of the trainer, 1000 samples", "memory, MB", "a training step", "waiting for Python"]
    lines = head(["", *columns])
    for name, case in stored.cases.items():
        for way, costs in case["costs"].items():
            rate = median(1e6 / cost for cost in costs["wall_us"])
            numbers = [rate, median(costs["cpu_us"]) / 1e3, costs["pss"] / 1e6]
            steps = [median(round_ratios(costs[key], costs["alone_us"])) for key in ("step_us", "waiting_us")]
            lines.append(row([f"{work[name]}: {ways[way]}", *map(short, numbers), *(f"{short(x)}x" for x in steps)]))
    return "\n".join(lines) + f"\n\n{stored.source()}"


def transport() -> str:
    stored = read("transport")
    peers = (_OURS, "spdl-born", "reference", "reference-pool", "torch", "queue")
    lines = head(["µs an item", *(TITLES[peer] for peer in peers)])
    for name, title in _timed(stored).items():
        case = stored.cases[name]
        ours = cost_of(case, _OURS) or 0.0
        costs = [cost_of(case, peer) for peer in peers[1:]]
        lines.append(row([title, short(ours), *(_with_ratio(cost, ours) for cost in costs)]))
    return "\n".join(lines) + f"\n\n{stored.source()}"


def headlines() -> str:
    """The table of the README: one row per question, SPDL beside the peers that most users know."""
    engine_case = read("engine").cases["sync_c4"]
    photo = read("images").cases["web-train-uint8"]
    clip = read("video").cases["small_full"]
    batch = read("transport").cases["uint8"]
    loaders = Result(in_todays_format(read("migration").newest))
    two = Cell(64, 2)
    rate = {peer: loaders.value("rate", two, peer) or 0.0 for peer in (LAST, TORCH)}
    first = {peer: 1e3 * (loaders.value("first", two, peer) or 0.0) for peer in (LAST, TORCH)}

    def cost(title: str, ours: float, *peers: tuple[str, float]) -> str:
        return row([title, short(ours), "; ".join(f"{name} {_with_ratio(value, ours)}" for name, value in peers)])

    def costs_of(case: Json, *peers: str, scale: float = 1.0) -> list[tuple[str, float]]:
        return [(TITLES[peer], scale * value) for peer in peers if (value := cost_of(case, peer)) is not None]

    lines = head(["", "SPDL", "others (times as long)"])
    lines.append(
        cost(
            "engine, µs an item and stage",
            cost_of(engine_case, _OURS) or 0.0,
            *costs_of(engine_case, "reference", "torchdata", "dataloader-2"),
        )
    )
    lines.append(
        cost(
            "JPEG to an augmented 224x224 batch, one core, ms an image",
            (cost_of(photo, _OURS) or 0.0) / 1e3,
            *costs_of(photo, "pillow", "opencv", "dali", "tf-data", scale=1e-3),
        )
    )
    lines.append(row([
        "the same as a loader with 2 workers, images/s",
        short(rate[LAST]),
        f"torch DataLoader {short(rate[TORCH])} ({short(rate[LAST] / rate[TORCH])}x)",
    ]))  # fmt: skip
    lines.append(cost("its first batch of 64, ms", first[LAST], ("torch DataLoader", first[TORCH])))
    lines.append(
        cost(
            "H.264 640x360 to an array, one core, µs a frame",
            cost_of(clip, _OURS) or 0.0,
            *costs_of(clip, "torchcodec", "decord", "pyav"),
        )
    )
    lines.append(
        cost("4.8 MB batch from another process, µs", cost_of(batch, _OURS) or 0.0, *costs_of(batch, "torch", "queue"))
    )
    return "\n".join(lines)


def resume() -> str:
    """What resuming adds, in CPU time of rounds; what a state costs; and a first batch in the middle of a dataset."""
    stored = read("resume")
    cases = stored.cases
    off = f"{_OURS}-off"
    lines = head(["", "resumable, CPU µs an item", "of that without"])
    for case in cases.values():
        if off in case["costs"] and (cost := cost_of(case, _OURS, "cpu_us")) is not None:
            share = median(round_ratios(*(case["costs"][peer]["cpu_us"] for peer in (_OURS, off))))
            lines.append(row([case["title"], short(cost), f"{short(share)}x"]))
    others = head(["", "SPDL", "its size, or another library"])
    for name in ("state-block", "state-apart"):
        size = median(cases[name]["costs"][_OURS]["bytes"])
        others.append(
            row([f"{cases[name]['title']}, µs", short(cost_of(cases[name], _OURS) or 0.0), f"{size:.0f} bytes"])
        )
    million = {peer: median(values["ms"]) for peer, values in cases["first-million"]["costs"].items()}
    torchdata = f"torchdata's `StatefulDataLoader` {_with_ratio(million['torchdata'], million[_OURS])}"
    others.append(row(["the first batch at position 500000 of 1000000, ms", short(million[_OURS]), torchdata]))
    drawn = cases["rng-numpy"]
    grain = f"Grain {_with_ratio(cost_of(drawn, 'grain'), cost_of(drawn, _OURS) or 0.0)}"
    others.append(row([f"{drawn['title']}, µs", short(cost_of(drawn, _OURS) or 0.0), grain]))
    return "\n\n".join(["\n".join(lines), "\n".join(others), stored.source()])


#: The parts of docs/benchmarks.md, by name.
PAGE: Mapping[str, Callable[[], str]] = {
    "engine": engine,
    "images": images,
    "stills": stills,
    "video": video,
    "audio": audio,
    "archives": archives,
    "migration": migration,
    "placement": placement,
    "transport": transport,
    "resume": resume,
}
#: The parts of README.md.
README: Mapping[str, Callable[[], str]] = {"headlines": headlines}
