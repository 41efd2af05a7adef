"""Native extensions and their generated stubs. Only ``spdl.io._native`` imports them."""
