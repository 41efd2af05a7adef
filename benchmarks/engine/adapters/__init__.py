"""One module per peer; ``benchmarks/engine/_adapter.py`` describes them."""
