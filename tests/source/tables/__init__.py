"""Tables and datasets of other libraries as sources."""
