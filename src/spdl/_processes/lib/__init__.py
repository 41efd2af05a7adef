"""Native memory that two processes share: the built extension and its generated stub."""
