"""Private: ``workers="auto"``, which chooses between threads and processes by a measurement."""
