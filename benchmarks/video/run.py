"""How fast does a video become an array of pictures? The answer is a ratio to peers in the same run.

    python benchmarks/video/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

H.264 with B-frames, made of photographs by the ffmpeg tool, becomes ``rgb24`` at full size or at 224x224: all
frames of a clip, or ten out of a minute. All peers use one decoder thread and no other threads. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.video._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
