"""One module a way to move items; ``benchmarks/transport/_worker.py`` says what they have."""
