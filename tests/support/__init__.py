"""What tests of several packages lean on: gates, leak checks, reference decoders."""
