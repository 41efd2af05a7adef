"""Rows of tables, and data sets of other libraries, as sources: one file for each kind."""
