"""What does an epoch cost whose worker processes do not outlive it?

    python benchmarks/starting/run.py [--quick] [--rounds N] [--peers A,B] [--json PATH]

An epoch of 16 batches that take no time, with workers that are started for it, of a data set whose module takes 0.3 s
to import. Each contestant runs in a process of its own and they take turns. What they give is compared first. See
README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.starting._main import main

    sys.exit(main(sys.argv[1:]))
