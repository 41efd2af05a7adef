"""What outputs were made of: told, logged, and made again."""
