"""What benchmarks share: interpreters for peers, workers that take turns, figures, and where numbers come from."""
