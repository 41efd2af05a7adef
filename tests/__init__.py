"""Tests; the folders mirror ``src/spdl``."""
