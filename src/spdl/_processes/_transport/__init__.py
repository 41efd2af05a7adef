"""Sends objects between two processes: small ones through a socket, large ones through shared memory.

Independent of pipelines. ``_pickling`` splits an object into a small head and large buffers, a ``Store`` puts the
buffers where the other side can read them in place, and a ``Link`` carries the heads.
"""
