"""Items, stages and pipelines that fail."""
