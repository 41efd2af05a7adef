"""Imported by the fork server, for its sake only: children find these modules in memory."""

from . import _child_main as _child_main
from . import _iterate_main as _iterate_main
