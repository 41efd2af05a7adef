"""Hooks, statistics, background tasks and queues that observe."""
