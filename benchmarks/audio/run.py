"""How fast does a sound file become an array of float32? Answered as a ratio to peers in the same run.

    python benchmarks/audio/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

AAC and FLAC, stereo at 44.1 kHz, made by the ffmpeg tool. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.audio._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
