"""How much of its interpreter does a training process keep when its loader runs elsewhere, and what does that cost?

    python benchmarks/placement/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH]

The same pipeline as threads of the training process, in a subprocess, and in a region of two workers. Each of them has
its own process, and they take turns. Outputs are compared before anything is timed. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.placement._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
