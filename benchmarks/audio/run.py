"""How fast does a sound file become an array of float32? A ratio to peers that did the same in the same run.

    python benchmarks/audio/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

AAC and FLAC, stereo at 44.1 kHz, made by the ffmpeg tool. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.audio._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
