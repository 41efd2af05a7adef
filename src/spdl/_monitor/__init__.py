"""Private: how one process shows another, of the same user, what it does. Knows nothing of pipelines."""
