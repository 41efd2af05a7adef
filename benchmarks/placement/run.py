"""What does a training process keep of its interpreter if its loader is moved out of it, and what does that cost?

    python benchmarks/placement/run.py [--quick] [--rounds N] [--cases A,B] [--ways A,B] [--json PATH]

The same pipeline as threads of the training process, in a subprocess, and in a region of two workers. Each way runs in
a process of its own and they take turns. What they give is compared before anything is timed. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.placement._main import main

    sys.exit(main(sys.argv[1:]))
