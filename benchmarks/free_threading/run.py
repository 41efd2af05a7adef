"""What does a pipeline gain from Python without the GIL, and what does the engine cost there?

    SPDL_FREE_THREADED_PYTHON=... python benchmarks/free_threading/run.py [--quick] [--rounds N] [--cases A,B]

The same pipelines on this Python and on a free-threaded one, which take turns: A B, A B. Outputs are compared before
anything is timed. Without a free-threaded Python there is nothing to compare, which it says. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.free_threading._cases import CONTEST, MISSING

    if CONTEST is None:
        print(MISSING)
        sys.exit(0)
    sys.exit(run(CONTEST, sys.argv[1:]))
