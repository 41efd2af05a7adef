"""Failed items: the callback that is called with them, and the file that they are written to and read from."""
