"""What do the members of a tar, and the arrays of npy, npz and WAV files, cost to get at?

    python benchmarks/archives/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Files are in memory before anything is timed, but for ``tar_stream``. Each peer runs in a process of its own and they
take turns. All that they give (every byte of every member, every element) is compared before anything is timed.
``memcpy`` is what copying the same bytes takes: the floor under all who copy. ``tar_8`` and ``tar_large_8`` are eight
threads, each with an archive of its own; its cost is for the same work as that of one thread.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.archives._contest import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
