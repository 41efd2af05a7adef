"""Private: where an epoch is, and how one begins in the middle. Imports no workers."""
