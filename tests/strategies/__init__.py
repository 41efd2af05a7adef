"""Hypothesis strategies: graphs, op schedules, media parameters."""
