"""One module per peer; ``benchmarks/resume/_session.py`` has what they are asked for."""
