"""Private: loading in worker processes, each with a copy of the dataset. Imported by workers too."""
