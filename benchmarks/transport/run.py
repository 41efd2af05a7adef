"""What does it cost to move a batch out of another process? The answer is a ratio to peers that did the same.

    python benchmarks/transport/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

One process makes batches, another one takes them. Each peer has a pair of its own and they take turns: A B C, A B C.
What arrives is compared, all of it, before anything is timed. ``--require`` exits with 1 if a figure that the project
promises is not reached. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.transport._main import main

    sys.exit(main(sys.argv[1:]))
