"""How fast does a video become an array of pictures? The answer is a ratio to peers that did the same in the same run.

    python benchmarks/video/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

H.264 with B-frames, made of photographs by the ffmpeg tool, becomes ``rgb24`` of its full size or of 224x224, all
frames of a clip or ten out of a minute. One decoder thread and no other threads, for all of them. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of a script is on the path, its package's parent is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.video._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
