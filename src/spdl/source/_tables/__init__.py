"""Rows of tables, and data sets of other libraries, as sources: one module per kind."""
