"""One module a peer: how someone who knows the library would decode a clip with it, on one thread."""
