"""What an item costs in the engine, against peers that do the same no-op work. Start with ``run.py``."""
