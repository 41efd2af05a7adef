"""What does each step from torch's DataLoader to SPDL gain in throughput, first batch, CPU time and memory?

    python benchmarks/migration/run.py [--quick] [--rounds N] [--cases '32x1*,256x8'] [--peers A,B] [--json PATH]
                                       [--require]

torch's loader and the three steps of docs/migration.md load the same photographs, with 1, 2, 4 and 8 workers, in
batches of 32 to 256. Each measurement has its own process, and they take turns: A B C, A B C. Outputs are compared
before anything is timed. A whole run also draws the pictures and writes the tables of docs/migration.md. ``--require``
exits with 1 if a requirement is not met. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.migration._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
