"""Retries and timeouts of calls."""
