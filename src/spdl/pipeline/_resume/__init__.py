"""States of pipelines, from which another run continues, and the checks of what can be resumed."""
