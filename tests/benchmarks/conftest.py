"""Fixtures of all tests of benchmarks."""

from tests.benchmarks.forked import forked_workers as forked_workers
