"""Child processes, and communication between them and their parent. Independent of pipelines."""
