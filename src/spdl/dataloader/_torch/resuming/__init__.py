"""Private: track the position in an epoch, save it, and resume from it. Imports no workers."""
