"""What does a pipeline gain from Python without the GIL, and what does the engine cost there?

    SPDL_FREE_THREADED_PYTHON=... python benchmarks/free_threading/run.py [--quick] [--rounds N] [--cases A,B]

The same pipelines on this Python and on a free-threaded one, which take turns: A B, A B. Outputs are compared before
anything is timed. Without a free-threaded Python there is nothing to compare, which it says. See README.md.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def compile_modules(python: str) -> None:
    """Write byte code to files: constants of a module that is compiled on import are counted by all threads."""
    folders = [str(ROOT / "benchmarks"), str(ROOT / "src" / "spdl")]
    subprocess.run([python, "-m", "compileall", "-q", *folders], check=True)


if __name__ == "__main__":
    # Python puts the script's folder on the path, but not the parent of its package.
    sys.path.insert(0, str(ROOT))
    from benchmarks._contest.running import run
    from benchmarks.free_threading._cases import CONTEST, MISSING, free_threaded_python

    python = free_threaded_python()
    if CONTEST is None or python is None:
        print(MISSING)
        sys.exit(0)
    compile_modules(python)
    sys.exit(run(CONTEST, sys.argv[1:]))
