"""Independent readers: one file each, with the version range that was tried and what not to believe it for."""
