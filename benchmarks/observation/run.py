"""What does it cost to trace a pipeline, and to export its metrics?

    python benchmarks/observation/run.py [--quick] [--rounds N] [--cases A,B] [--peers A,B] [--json PATH] [--require]

The same pipeline, with nothing that watches it, with a trace, with a report in the log ten times a second, and with
Prometheus asking ten times a second. They take turns; outputs are compared first. See README.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks._contest.running import run
    from benchmarks.observation._cases import CONTEST

    sys.exit(run(CONTEST, sys.argv[1:]))
