"""Shards: indexes, orders and streams."""
