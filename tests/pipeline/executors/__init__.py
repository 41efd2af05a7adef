"""Executors for one stage."""
