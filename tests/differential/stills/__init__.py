"""Cells of stills: formats, depths, layouts and orientations."""
