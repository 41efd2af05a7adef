"""How fast do JPEG files become a batch of images? The answer is a ratio to peers in the same run.

    python benchmarks/images/run.py [--quick] [--rounds N] [--cases A,B*] [--peers A,B] [--json PATH] [--require]

Photographs of three sizes (scripts/make_photos.py) are fitted, or transformed as for evaluation or training, to batches
of 224x224. Each contestant has its own process, which waits for its turn: A B C, A B C. Outputs are compared before
anything is timed. ``--require`` exits with 1 if a requirement is not met. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.images._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
