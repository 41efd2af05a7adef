"""Imported by the fork server, so that its workers have these modules in memory."""

import gc
from contextlib import suppress

from . import _process_main as _process_main

with suppress(Exception):  # an error here would end the server; the workers report it better
    import torch.utils.data as _data  # noqa: F401

# Garbage collection in a worker would write to all these objects and so copy their pages: about 2 MB.
gc.freeze()
