"""Shared memory for items: the automatic arena, and those that are asked for."""
