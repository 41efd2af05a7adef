"""What does an item cost in the engine? The answer is a ratio to a peer that did the same work in the same run.

    python benchmarks/engine/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--markdown]
                                    [--require] [--install-torch]

Integers move through stages that return what they were given. Each peer runs in a process of its own and they take
turns: A B C, A B C. A cost is wall time (and CPU time of all threads and processes) for each source item, from before
anything is built to after everything has ended, less the same for a single item in the same turn: what a peer needs to
start and stop is shown by itself and is in nobody's cost per item. A turn lasts about half a second whatever the peer,
so each peer has its own number of items. What the peers emit is compared before anything is timed, and counted and
summed again in every timed run. The garbage collector is as Python sets it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.engine._main import main

    sys.exit(main(sys.argv[1:]))
