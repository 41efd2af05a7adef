"""Tests of ``spdl._processes``: starting processes, and what crosses to them."""
