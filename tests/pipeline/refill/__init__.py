"""Random numbers of items: ``pipe(rng=...)``."""
