"""Tests of spdl.io.utils."""
