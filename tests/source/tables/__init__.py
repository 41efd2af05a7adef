"""Tables and data sets of other libraries as sources."""
