"""Imported by the fork server, for its sake only: children that iterate find these modules in memory."""

from . import _iterate_main as _iterate_main
