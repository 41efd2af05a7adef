"""Leaving the process: children that are started, watched and ended here, and what runs in them."""
