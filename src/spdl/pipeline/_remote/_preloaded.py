"""Imported only by the fork server, so that children that iterate find these modules in memory."""

from . import _iterate_main as _iterate_main
