"""How long a test waits for an expected event. Child processes import it too, so it imports nothing."""

__all__ = ["TIMEOUT"]

#: Seconds until a wait counts as a hang. Working code stays far below it, even on a busy machine.
TIMEOUT = 100.0
