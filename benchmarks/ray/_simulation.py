"""What is measured for the model, what the model makes of it, and how that is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import ceil, floor, log10
from statistics import median
from typing import Any, Final

from ._model import Cluster, Costs, Network, limit, rate

__all__ = ["NETWORKS", "Measured", "draw", "table"]

#: Interfaces of nodes in one data centre. Seconds until a message arrives, with what a call of Ray takes.
NETWORKS: Final = {
    "10 Gbit/s": Network(10e9 / 8, 5e-4),
    "25 Gbit/s": Network(25e9 / 8, 5e-4),
    "100 Gbit/s": Network(100e9 / 8, 5e-4),
}
ACTORS_PER_NODE: Final = 16
_NUMBERS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_WIDTH: Final = 720
_HEIGHT: Final = 400
_LEFT: Final = 80
_RIGHT: Final = 120  # pixels for the names of the lines
_TOP: Final = 40
_BOTTOM: Final = 50
# Of the palette of Okabe and Ito (2008), which people with any colour vision can tell apart.
_COLOURS: Final = ("#d55e00", "#009e73", "#56b4e9")
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.grid { stroke: #afb8c1; stroke-width: 0.5 }
path { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #656c76 } }
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured for one size of batch, with all nodes on one machine.

    Attributes:
        batch: Number of pictures.
        costs: Of a batch.
        loopback: The network of a machine with itself: bytes per second of a connection, and half of the time that a
            call of Ray takes to another node of the machine and back.
        cores: Those of the machine.
        rates: Batches per second of each round, by the number of actors.
    """

    batch: int
    costs: Costs
    loopback: Network
    cores: int
    rates: Mapping[int, Sequence[float]]

    def ratios(self) -> dict[int, float]:
        """Return what was measured over what the model says, by the number of actors."""
        found = {}
        for number, rates in self.rates.items():
            where = Cluster(1, number, self.loopback, cores_of_pipeline=self.cores)
            found[number] = median(rates) / rate(self.costs, where, cores=self.cores)
        return found

    def document(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self) | {"rates": {str(number): list(rates) for number, rates in self.rates.items()}}

    @staticmethod
    def of(document: Mapping[str, Any]) -> "Measured":
        """Return what ``document`` has given."""
        return Measured(
            batch=document["batch"],
            costs=Costs(**document["costs"]),
            loopback=Network(**document["loopback"]),
            cores=document["cores"],
            rates={int(number): list(rates) for number, rates in document["rates"].items()},
        )


def _place(num_actors: int, network: Network) -> Cluster:
    return Cluster(ceil(num_actors / ACTORS_PER_NODE), min(num_actors, ACTORS_PER_NODE), network)


def table(measured: Sequence[Measured], network: Network) -> str:
    """Return the pictures per second by number of actors, with what bounds them, as a table of Markdown."""
    heads = [f"batches of {each.batch} | bound by" for each in measured]
    lines = [f"| actors | {' | '.join(heads)} |", "| ---: |" + " ---: | --- |" * len(measured)]
    for number in _NUMBERS:
        where = _place(number, network)
        cells = []
        for each in measured:
            cells += [_rounded(each.batch * rate(each.costs, where)), limit(each.costs, where)]
        lines.append(f"| {number} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _rounded(value: float) -> str:
    """Two digits are more than a model knows."""
    digits = max(0, floor(log10(value)) - 1)
    return f"{round(value, -digits):,.0f}"


def draw(measured: Measured) -> str:
    """Return lines of pictures a second by number of actors, both logarithmic, for each network."""
    lines = {
        name: [measured.batch * rate(measured.costs, _place(number, network)) for number in _NUMBERS]
        for name, network in NETWORKS.items()
    }
    values = [value for line in lines.values() for value in line]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))

    def place(number: float, value: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * log10(number) / log10(_NUMBERS[-1])
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (log10(value) - low) / (high - low)

    title = f"Photographs a second of one rank by actors on other nodes, batches of {measured.batch}: a model"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
        f' height="{_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="10" y="20">{escape(title)}</text>',
    ]
    for number in _NUMBERS:
        x, bottom = place(number, 10**low)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{number}</text>')
    for power in range(low, high + 1):
        x, y = place(1, 10**power)
        parts.append(f'<line class="grid" x1="{x}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 10}">actors</text>')
    for (name, line), colour in zip(lines.items(), _COLOURS, strict=True):
        points = [place(number, value) for number, value in zip(_NUMBERS, line, strict=True)]
        way = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<path stroke="{colour}" d="M{way}"/>')
        x, y = points[-1]
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
