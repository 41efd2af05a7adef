"""How each kind of description is built: one file per kind, and the table of kinds in ``_table``."""
