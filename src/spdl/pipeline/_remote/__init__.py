"""Parts of a pipeline that run in child processes: the parent's side of each, and the child's side (``*_main``)."""
