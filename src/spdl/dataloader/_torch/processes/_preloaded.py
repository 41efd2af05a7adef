"""Imported by the fork server, for its sake only: workers find these modules in memory."""

import gc
from contextlib import suppress

from . import _process_main as _process_main

with suppress(Exception):  # it would end the server, and each worker says better what is wrong
    import torch.utils.data as _data  # noqa: F401

# The collector of a worker would write to each of all these objects, and so make copies of their pages: about 2 MB.
gc.freeze()
