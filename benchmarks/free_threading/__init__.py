"""What Python without the GIL gives a pipeline, and what its engine costs there."""
