"""Private: lets one process show its state to another process of the same user. Independent of pipelines."""
