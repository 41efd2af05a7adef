"""How each kind of description is built: one file per kind, and the table of kinds in ``_table``."""

from ._table import KINDS as KINDS

__all__ = ["KINDS"]
