"""The tables of docs/benchmarks.md and README.md, generated from stored results by ``scripts/benchmark_tables``."""
