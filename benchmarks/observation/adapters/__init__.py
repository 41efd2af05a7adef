"""One module per contestant; ``benchmarks/_contest/calls.py`` describes them."""
