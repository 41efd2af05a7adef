"""Imported by the fork server, last: what it has imported by then is exempt from garbage collection.

The collector would look at all objects of torch in each process that is forked, and write to them, which makes copies
of their pages. That takes longer than most tests need such a process for.
"""

import gc

gc.collect()
gc.freeze()
