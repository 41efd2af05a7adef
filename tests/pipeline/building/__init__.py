"""Builders, descriptions and defaults."""
