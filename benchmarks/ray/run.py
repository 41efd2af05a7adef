"""What does a region cost whose workers are Ray actors? The answer is a ratio to worker processes and to Ray Data.

    python benchmarks/ray/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Needs Ray with its data library: ``pip install 'ray[data]'``. Each peer has its own process and its own Ray, and they
take turns. Outputs are compared first. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.ray._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
