"""How fast does a video become an array of pictures? See run.py."""
