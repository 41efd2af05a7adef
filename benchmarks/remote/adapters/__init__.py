"""One module a peer; ``benchmarks/_contest/adapter_worker.py`` says what they have."""
