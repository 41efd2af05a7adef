"""Private: ``workers="auto"``, the choice between threads and processes by a measurement."""
