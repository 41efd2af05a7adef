"""Tests of iterables and samplers."""
