"""Measurements against peers; see README.md in this folder."""
