"""Continuous sources and the ends of their epochs."""
