"""Kinds of stages, and what flows through them."""
