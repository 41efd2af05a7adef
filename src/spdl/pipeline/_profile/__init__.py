"""Profiling: measures each stage of a pipeline alone, at several concurrencies."""
