"""One module a peer: how someone who knows the library would decode a file with it, on one thread."""
