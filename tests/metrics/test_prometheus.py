"""``spdl.metrics.prometheus``: what is scraped, when it is read, and what a fork does to it."""

import gc
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from spdl import metrics
from spdl.pipeline import Pipeline, PipelineBuilder
from tests.support.child import run_child

client = pytest.importorskip("prometheus_client")


def odd(item: int) -> int:
    if item % 2:
        raise ValueError(item)
    return item


def ended() -> Pipeline[Any]:
    """A pipeline with ten items, half of which failed."""
    pipeline = PipelineBuilder().add_source(range(10)).pipe(odd, name="keep").aggregate(2).add_sink().build()
    assert len(list(pipeline)) == 3
    return pipeline


@pytest.fixture
def registry() -> Iterator[Any]:
    found = client.CollectorRegistry()
    with metrics.prometheus(registry=found):
        yield found


def number_of(pipeline: Pipeline[Any]) -> str:
    return str(pipeline.stats().stages[0].info.pipeline_id)


def test_values_are_those_of_the_statistics(registry: Any) -> None:
    """Of the pipeline and of each stage, with the number of the pipeline and the name of the stage as labels."""
    pipeline = ended()
    stats, pipe = pipeline.stats(), {"pipeline": number_of(pipeline)}
    keep = {**pipe, "stage": "keep", "stage_id": "1"}
    value = registry.get_sample_value
    assert value("spdl_pipeline_items_total", pipe) == 3
    assert value("spdl_pipeline_state", {**pipe, "state": "ended"}) == 1
    assert value("spdl_pipeline_threads", pipe) == stats.num_threads
    assert value("spdl_pipeline_consumer_wait_seconds_total", pipe) == stats.consumer_wait
    assert value("spdl_stage_calls_total", keep) == 10
    assert value("spdl_stage_failures_total", keep) == 5
    assert value("spdl_stage_items_total", keep) == 5
    assert value("spdl_stage_call_seconds_count", keep) == 5
    assert value("spdl_stage_call_seconds_sum", keep) == stats.stages[1].wall_time
    assert value("spdl_stage_starved_seconds_total", keep) == stats.stages[1].starved
    assert value("spdl_stage_in_flight", keep) == 0
    assert value("spdl_channel_capacity", keep) == 2


def test_a_sink_that_nobody_reads_is_not_starved(registry: Any) -> None:
    """Its time counts while a reader waits, as that of the consumer does."""
    pipeline = PipelineBuilder().add_source(range(10), continuous=True).add_sink().build()
    sink = {"pipeline": number_of(pipeline), "stage": "sink", "stage_id": "1"}
    with pipeline.auto_stop():
        assert registry.get_sample_value("spdl_stage_starved_seconds_total", sink) == 0
        assert registry.get_sample_value("spdl_stage_starved_seconds_total", sink) == 0
        list(pipeline)
    stats = pipeline.stats()
    assert registry.get_sample_value("spdl_stage_starved_seconds_total", sink) == stats.stages[-1].starved
    assert stats.stages[-1].starved == pytest.approx(stats.consumer_wait)


def test_substitutes_and_parts_that_are_missing_are_counted(registry: Any) -> None:
    """Apart from failures: what was replaced by ``on_error``, and what calls left out."""
    builder = PipelineBuilder().add_source(range(10)).pipe(odd, name="keep", on_error=lambda item, error: -item)
    pipeline = builder.add_sink().build()
    assert len(list(pipeline)) == 10
    keep = {"pipeline": number_of(pipeline), "stage": "keep", "stage_id": "1"}
    assert registry.get_sample_value("spdl_stage_failures_total", keep) == 5
    assert registry.get_sample_value("spdl_stage_substituted_total", keep) == 5
    assert registry.get_sample_value("spdl_stage_lost_total", keep) == 0


def test_pipelines_that_are_built_later_are_read_too(registry: Any) -> None:
    """Each scrape reads what is there; before the start there is nothing to read."""
    pipeline = PipelineBuilder().add_source(range(3)).add_sink().build()
    labels = {"pipeline": number_of(pipeline)}
    assert registry.get_sample_value("spdl_pipeline_items_total", labels) is None
    assert next(iter(pipeline)) == 0
    assert registry.get_sample_value("spdl_pipeline_items_total", labels) == 1
    assert list(pipeline) == [1, 2]
    assert registry.get_sample_value("spdl_pipeline_items_total", labels) == 3


def test_dropped_pipelines_are_not_kept(registry: Any) -> None:
    """The exporter holds no reference to a pipeline."""
    pipeline = ended()
    labels = {"pipeline": number_of(pipeline)}
    registry.get_sample_value("spdl_pipeline_items_total", labels)
    del pipeline
    gc.collect()
    assert registry.get_sample_value("spdl_pipeline_items_total", labels) is None


def test_metrics_are_served_on_the_loopback_address() -> None:
    """In Prometheus's text format, until the exporter is closed."""
    pipeline = ended()
    with metrics.prometheus(port=0) as exporter:
        with urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        port = exporter.port
    samples = list(client.parser.text_string_to_metric_families(text)) if hasattr(client, "parser") else None
    assert samples is None or samples
    line = f'spdl_stage_calls_total{{pipeline="{number_of(pipeline)}",stage="keep",stage_id="1"}} 10.0'
    assert line in text
    with socket.socket() as probe, pytest.raises(OSError, match="refused"):
        probe.connect(("127.0.0.1", port))
    exporter.close()  # once more does nothing


def test_port_that_is_taken_is_an_error_that_says_so() -> None:
    """With the address and what to do."""
    with metrics.prometheus(port=0) as exporter, pytest.raises(OSError, match=f"127.0.0.1:{exporter.port}"):
        metrics.prometheus(port=exporter.port)


def test_port_and_registry_exclude_each_other() -> None:
    """It would not be clear who serves."""
    with pytest.raises(ValueError, match="either port or registry"):
        metrics.prometheus(port=0, registry=client.CollectorRegistry())


def test_closed_exporter_leaves_the_registry() -> None:
    """So that another one can be added."""
    registry = client.CollectorRegistry()
    for _ in range(2):
        metrics.prometheus(registry=registry).close()
    assert list(registry.collect()) == []


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to install it."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r'pip install "prometheus-client".* extra "prometheus"'):
        metrics.prometheus()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_fork_exports_its_own_pipelines_only() -> None:
    """It frees the port of its parent, and can export on another one."""
    run_child(
        """
        import os, warnings
        from urllib.request import urlopen
        from spdl import metrics
        from spdl.pipeline import PipelineBuilder

        def made(n):
            pipeline = PipelineBuilder().add_source(range(n)).add_sink().build()
            assert len(list(pipeline)) == n
            return pipeline

        def scraped(exporter):
            with urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            return [line for line in lines if line.startswith("spdl_pipeline_items_total")]

        old = made(3)
        exporter = metrics.prometheus(port=0)
        warnings.simplefilter("ignore")
        child = os.fork()
        if not child:
            assert exporter._server.socket.fileno() == -1
            exporter.close()
            new = made(5)
            with metrics.prometheus(port=0) as mine:
                assert [line.split()[1] for line in scraped(mine)] == ["5.0"], scraped(mine)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert [line.split()[1] for line in scraped(exporter)] == ["3.0"]
        exporter.close()
        print("done")
        """
    ).check("done")
