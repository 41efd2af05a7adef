"""How fast does a sound file become an array of float32? See run.py."""
