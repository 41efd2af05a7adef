"""What of a pipeline runs in child processes: the parent's side of each conversation, and the child's (``*_main``)."""
