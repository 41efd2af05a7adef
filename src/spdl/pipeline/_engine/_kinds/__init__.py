"""How each kind of description is built: one file per kind, and the table of kinds in ``_table``."""

from ._refill import with_gate as with_gate
from ._table import KINDS as KINDS

__all__ = ["KINDS", "with_gate"]
