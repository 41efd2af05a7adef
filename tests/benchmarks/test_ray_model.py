"""benchmarks/ray: the arithmetic of the model, and its tables and picture. Nothing is measured."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.ray._model import Cluster, Costs, Network, bounds, limit, rate, simulate
from benchmarks.ray._simulation import NETWORKS, Measured, draw, table
from tests.strategies.profiles import cases

COSTS = Costs(num_bytes=5_000_000, make=0.04, send=0.002, sender=0.001, receiver=0.002, take=0.001)
FAST = Network(bandwidth=12.5e9, latency=50e-6)
SLOW = Network(bandwidth=1.25e8, latency=50e-6)


def cluster(num_nodes: int, actors_per_node: int, network: Network) -> Cluster:
    return Cluster(num_nodes, actors_per_node, network)


@pytest.mark.parametrize(
    ("where", "name", "allowed"),
    [
        (cluster(1, 2, FAST), "actors", 2 / 0.042),
        (cluster(1, 16, SLOW), "network of the actors' nodes", 25.0),
        (cluster(4, 16, SLOW), "network of the pipeline's node", 25.0),
        (cluster(64, 16, FAST), "process of the pipeline", 1000.0),
        (Cluster(64, 16, FAST, cores_of_pipeline=2), "cores of the pipeline's node", 2 / 0.003),
        (cluster(1, 2, Network(12.5e9, 1.0)), "batches on their way", 4 / (2 + 0.003 + 0.0004)),
    ],
)
def test_the_rate_is_what_the_bound_allows(where: Cluster, name: str, allowed: float) -> None:
    """The simulation comes close to it where it is far below the others."""
    assert limit(COSTS, where) == name
    assert bounds(COSTS, where)[name] == pytest.approx(allowed)
    assert simulate(COSTS, where) == pytest.approx(allowed, rel=0.05)


@cases(40)
@given(
    num_nodes=st.integers(1, 6),
    actors_per_node=st.integers(1, 8),
    size=st.integers(10_000, 50_000_000),
    make=st.floats(1e-3, 0.2),
    send=st.floats(0, 5e-3),
    receiver=st.floats(1e-5, 5e-3),
    take=st.floats(1e-5, 5e-3),
    bandwidth=st.floats(1e8, 2e10),
    latency=st.floats(1e-6, 0.1),
)
def test_no_bound_is_passed(
    num_nodes: int,
    actors_per_node: int,
    size: int,
    make: float,
    send: float,
    receiver: float,
    take: float,
    bandwidth: float,
    latency: float,
) -> None:
    """Whatever the costs are, and half of the lowest bound is reached."""
    costs = Costs(size, make, send, 0.0, receiver, take)
    where = Cluster(num_nodes, actors_per_node, Network(bandwidth, latency))
    lowest = min(bounds(costs, where).values())
    assert 0.45 * lowest < simulate(costs, where, num_batches=400) < 1.06 * lowest


def test_one_machine_shares_its_cores() -> None:
    """Two actors with the pipeline on two cores."""
    assert rate(COSTS, cluster(1, 2, FAST), cores=2) == pytest.approx(2 / 0.046)
    assert rate(COSTS, cluster(1, 1, FAST), cores=2) == pytest.approx(1 / 0.042, rel=0.05)


def measured() -> Measured:
    return Measured(
        batch=32, costs=COSTS, loopback=Network(2e9, 3e-4), cores=2, rates={1: [20.0, 22.0], 2: [40.0, 41.0]}
    )


def test_the_model_is_compared_with_what_was_measured() -> None:
    """For one actor and for two, of which the median counts."""
    ratios = measured().ratios()
    assert ratios[1] == pytest.approx(21.0 / (1 / 0.042), rel=0.05)
    assert ratios[2] == pytest.approx(40.5 / (2 / 0.046), rel=0.05)


def test_what_was_measured_can_be_stored() -> None:
    """And read back."""
    assert Measured.of(measured().document()) == measured()


def test_a_table_says_what_bounds_the_rate() -> None:
    """For each number of actors, with the place where more of them do not help."""
    text = table([measured()], NETWORKS["10 Gbit/s"])
    assert "| 1 | 760 |" in text
    assert "network of the pipeline's node" in text
    assert text.count("\n") > 6


def test_the_picture_is_xml() -> None:
    """With a line for each network."""
    root = ElementTree.fromstring(draw(measured()))
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == len(NETWORKS)
