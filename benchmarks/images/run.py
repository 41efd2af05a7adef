"""How fast do JPEG files become a batch of images? The answer is a ratio to peers that did the same in the same run.

    python benchmarks/images/run.py [--rounds N] [--photos N] [--peers A,B] [--json PATH] [--require]

Photographs of about 500x375 (scripts/make_photos.py) go in batches of 32 to 224x224 rgb24, scaled to fit, centred,
with black borders, on one thread. Each contestant runs in a process of its own that waits until it is told to go, and
they take turns: A B C, A B C. What they give is compared before anything is timed. ``planes`` is what libjpeg-turbo
alone needs to decode the same data, already in memory, to planes of full size: the floor under all who decode them.
``spdl-2`` is ours in two threads, and its ratio says how many times as fast that is. ``--require`` exits with 1 if a
ratio that the project promises is not reached.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.images._main import main

    sys.exit(main(sys.argv[1:]))
