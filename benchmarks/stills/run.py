"""How fast do PNG, WebP, GIF, TIFF and AVIF become arrays? Answered as a ratio to peers in the same run.

    python benchmarks/stills/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

Photographs of 500x375 and 12 megapixels, whole and at 224x224, one by one and in batches, one thread. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.stills._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
