"""Child processes, and what crosses between them and their parent. Knows nothing of pipelines."""
