"""What does a failed item cost, and what does each way of being told of it add?

    python benchmarks/failures/run.py [--quick] [--rounds N] [--peers A,B] [--json PATH] [--require]

Every second item fails, in one thread. The ways of being told take turns; outputs are compared first. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.failures._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
