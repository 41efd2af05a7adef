"""What does it cost to have each batch on the GPU when a step wants it? A ratio to code with torch alone.

    python benchmarks/devices/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Needs a CUDA device, and torch for it in this interpreter; otherwise it says so and measures nothing. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.devices._cases import CONTEST, find_missing

    missing = find_missing()
    if missing is not None:
        print(f"devices benchmark: nothing is measured: {missing}", file=sys.stderr)
        sys.exit(1 if "--require" in sys.argv else 0)
    sys.exit(run(CONTEST, sys.argv[1:]))
