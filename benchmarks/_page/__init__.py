"""The tables and pictures of docs/benchmarks.md and README.md: ``scripts/benchmark_tables`` writes them."""
