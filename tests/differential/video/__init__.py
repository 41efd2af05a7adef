"""Laws about moving pictures."""
