"""How fast do video files become batches of clips for training? The answer is a ratio to peers in the same run.

    python benchmarks/clips/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Batches of clips of eight frames at random places of H.264 files, at 224x224, ``uint8`` in ``NCTHW``. All peers use one
decoder thread and no other threads. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.clips._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
