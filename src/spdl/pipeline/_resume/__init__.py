"""Where a pipeline is in its data: states of pipelines, and what can have one."""
