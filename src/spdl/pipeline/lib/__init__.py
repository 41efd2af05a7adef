"""The built extension and its generated stub. Only ``spdl._processes`` imports it."""
