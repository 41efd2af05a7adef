"""Reading a pipeline."""
