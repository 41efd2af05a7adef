"""Laws of the engine, as properties."""
