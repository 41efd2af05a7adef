"""How many cores can one pipeline use?

    python benchmarks/scaling/run.py [--quick] [--rounds N] [--cases A,B] [--require]

Measures what an item costs, how long of that the GIL and the engine's lock are held, and the gain of a second core. A
model of these says at which number of cores each is used up. Needs two idle cores. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.scaling._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
