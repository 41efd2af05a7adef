"""Tests of behaviour promised in the documentation, through public names only."""
