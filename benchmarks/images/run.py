"""How fast do JPEG files become a batch of images? The answer is a ratio to peers that did the same in the same run.

    python benchmarks/images/run.py [--quick] [--rounds N] [--cases A,B*] [--peers A,B] [--json PATH] [--require]

Photographs of three sizes (scripts/make_photos.py) are fitted, or transformed as for evaluation or training, to batches
of 224x224. Each contestant runs in a process of its own that waits until it is told to go, and they take turns: A B C,
A B C. What they give is compared before anything is timed. ``--require`` exits with 1 if a figure that the project
promises is not reached. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.images._main import main

    sys.exit(main(sys.argv[1:]))
