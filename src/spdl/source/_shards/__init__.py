"""Shards (archives of many samples) as sources that can be indexed, or that are read in order."""
