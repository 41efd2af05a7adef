"""Starting, and every way in which a pipeline ends."""
