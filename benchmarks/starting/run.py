"""What does an epoch cost if its worker processes end with it?

    python benchmarks/starting/run.py [--quick] [--rounds N] [--peers A,B] [--json PATH] [--require]

The epoch has 16 batches that take no time, from workers that are started for it, of a dataset whose module takes 0.3 s
to import. Each contestant has its own process, and they take turns. Outputs are compared first. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.starting._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
