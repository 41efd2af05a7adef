"""One module a way to move items; ``benchmarks/transport/_session.py`` says what they have."""
