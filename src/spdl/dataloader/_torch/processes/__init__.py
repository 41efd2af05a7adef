"""Private: loading in worker processes, each with a copy of the dataset. Imports nothing: workers import it too."""
