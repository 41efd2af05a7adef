"""What does it cost to read objects of a store, and to read them again from the cache?

    python benchmarks/remote/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

The store is nginx on the loopback interface (Debian: ``apt-get install nginx-light``), started by the run. All objects
are in the page cache of the machine, so the numbers show what clients cost, not networks. Each peer has its own
process, and they take turns; all bytes are compared before anything is timed. Client and server share the processors.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.remote._contest import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
