"""Rows of tables, and datasets of other libraries, as sources: one module per kind."""
