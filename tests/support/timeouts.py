"""How long a test waits for what has to come. Imported by child processes too, so it imports nothing."""

__all__ = ["TIMEOUT"]

#: Seconds until a wait counts as a hang. Nothing that works comes near it, also beside a load of many processes.
TIMEOUT = 100.0
