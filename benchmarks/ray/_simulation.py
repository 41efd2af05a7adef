"""What is measured for the model, what the model makes of it, and how that is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, floor, log10
from statistics import median
from typing import Any, Final

from benchmarks._contest.log_plot import LogPlot

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
# Of the palette of Okabe and Ito (2008), which people with any colour vision can tell apart.
_COLOURS: Final = ("#d55e00", "#009e73", "#56b4e9")


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
    title = f"Photographs a second of one rank by actors on other nodes, batches of {measured.batch}: a model"
    rates = [value for line in lines.values() for value in line]
    plot = LogPlot(title, axis="actors", numbers=_NUMBERS, rates=rates, left=80, right=120)
    for (name, line), colour in zip(lines.items(), _COLOURS, strict=True):
        plot.line(zip(_NUMBERS, line, strict=True), colour)
        plot.name(name, line[-1])
    return plot.image()
