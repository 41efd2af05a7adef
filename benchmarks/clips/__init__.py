"""How fast do video files become batches of clips for training? See run.py."""
