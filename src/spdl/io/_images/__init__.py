"""Pictures: load one or a batch, transform, save."""
