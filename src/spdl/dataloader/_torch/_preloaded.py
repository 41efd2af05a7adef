"""Imported by the fork server, for its sake only: workers find these modules in memory."""

from contextlib import suppress

from . import _process_main as _process_main

with suppress(Exception):  # it would end the server, and each worker says better what is wrong
    import torch.utils.data as _data  # noqa: F401
