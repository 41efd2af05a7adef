"""Shards: archives that hold many samples, as sources that can be indexed, or read one after the other."""
