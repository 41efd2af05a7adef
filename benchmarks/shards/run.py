"""What does it cost to read the samples of tar shards, in order and shuffled?

    python benchmarks/shards/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

The shards are local files that the system has in memory, so this is the cost of the library, not of the disk. Each peer
has its own process, and they take turns. The samples of all peers (keys, sizes, and one byte in 509 of every file)
are compared before anything is timed.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.shards._contest import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
