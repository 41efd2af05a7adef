"""Priority executors: one pool shared by several stages, with one entry point per stage."""
