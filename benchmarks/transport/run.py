"""What does it cost to move a batch out of another process? The answer is a ratio to peers.

    python benchmarks/transport/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

One process makes batches, another one takes them. Each peer has its own pair, and they take turns: A B C, A B C. All
items are compared before anything is timed. ``--require`` exits with 1 if a requirement is not met. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.transport._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
