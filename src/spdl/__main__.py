"""``python -m spdl``, also installed as the command ``spdl``."""

import sys

from spdl._cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
