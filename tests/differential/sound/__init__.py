"""Cells about sound: one module for each law, and the generator of files."""
