"""Provenance: the source items that an output was made of. Returned with the output, logged, and replayed."""
