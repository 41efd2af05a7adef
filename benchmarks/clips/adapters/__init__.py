"""One module a peer: how someone who knows the library would load a batch of clips with it, on one thread."""
