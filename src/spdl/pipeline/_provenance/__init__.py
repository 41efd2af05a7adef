"""Which items an output was made of: told with it, logged, and made again."""
