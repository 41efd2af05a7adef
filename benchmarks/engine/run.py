"""What does an item cost in the engine? The answer is a ratio to a peer in the same run.

    python benchmarks/engine/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Integers move through stages that return their argument. Each peer has its own process, and they take turns: A B C,
A B C. A cost is wall time (and CPU time of all threads and processes) per source item, from before anything is built to
after everything has ended, minus the same for a single item in the same turn. The time to start and stop is shown
separately. A turn lasts about half a second for every peer, so each peer has its own number of items. Outputs are
compared before anything is timed, and counted and summed in every timed run. The garbage collector has its defaults.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.engine._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
