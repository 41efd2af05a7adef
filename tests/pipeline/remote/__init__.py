"""Pipelines and iterables in other processes."""
