"""How fast do files become a batch of images? See run.py."""
