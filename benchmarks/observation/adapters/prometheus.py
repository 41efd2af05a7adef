"""Metrics that are scraped ten times a second, by a thread in place of Prometheus."""

import threading
from collections.abc import Callable
from typing import Any

import prometheus_client

from spdl import metrics

from ._pipeline import build, read
from ._pipeline import outputs as outputs
from ._pipeline import versions as versions

_INTERVAL = 0.1


def prepare(case: str, data: dict[str, Any]) -> Callable[[], list[int]]:
    registry = prometheus_client.CollectorRegistry()
    metrics.prometheus(registry=registry)

    def run() -> list[int]:
        is_over = threading.Event()

        def scrape() -> None:
            while not is_over.wait(_INTERVAL):
                prometheus_client.generate_latest(registry)

        scraping = threading.Thread(target=scrape)
        scraping.start()
        try:
            return read(build(data))
        finally:
            is_over.set()
            scraping.join()

    return run
