"""Imported only by the fork server, before our other modules, so that no signal of the training process ends it."""

from ._child_main import run
from ._signals import ignore_signals_in_server

ignore_signals_in_server(run)
