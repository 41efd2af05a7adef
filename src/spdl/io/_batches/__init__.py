"""Batches of clips and of sounds, each loaded by one native call."""
