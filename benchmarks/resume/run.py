"""What does it cost that a run can be resumed?

    python benchmarks/resume/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Pipelines with and without ``resumable=True``, states, first batches of resumed runs, and the random numbers of items.
Each contestant has its own process, and they take turns. Outputs are compared first. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.resume._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
