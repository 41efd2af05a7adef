"""What does it cost to read the members of a tar, and the arrays of npy, npz and WAV files?

    python benchmarks/archives/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Files are in memory before anything is timed, except in ``tar_stream``. Each peer has its own process, and they take
turns. All outputs (every byte of every member, every element) are compared before anything is timed. ``memcpy`` is the
time to copy the same bytes: the lower bound for every peer that copies. ``tar_8`` and ``tar_large_8`` are eight
threads, each with its own archive; the cost is for the same work as that of one thread. ``tar_in_turn`` is one
thread that reads eight archives in turn, so that its data is as cold.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.archives._contest import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
