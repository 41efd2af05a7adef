"""One module per way of being told; ``benchmarks/_contest/calls.py`` describes them."""
