"""What does it cost to have each batch on the GPU when a training step wants it? See run.py."""
