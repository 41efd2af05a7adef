"""Interpreters for the contestants, made once with ``venv`` and ``pip`` below ``.cache/bench`` of the repository.

The reference has the import name of what is measured, so it can never share an interpreter with it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

CHECKOUT = "checkout"
_REQUIREMENTS = {
    "images-reference": ["numpy", "spdl==0.8.0"],
    "images-peers": ["numpy", "opencv-python-headless>=4.9", "pillow>=10.3", "simplejpeg>=1.7"],
}


class SetupError(RuntimeError):
    """An environment could not be made; the message ends with what the tool said."""


def interpreter_of(environment: str) -> str:
    """The Python of an environment, which is made if need be.

    Raises:
        SetupError: ``venv`` or ``pip`` failed.
    """
    if environment == CHECKOUT:
        return sys.executable
    requirements = _REQUIREMENTS[environment]
    folder = REPOSITORY / ".cache" / "bench" / f"{environment}-{sys.implementation.cache_tag}"
    python = str(folder / "bin" / "python")
    complete = folder / "complete.txt"  # written last
    if complete.exists() and complete.read_text(encoding="utf-8").split("\n") == requirements:
        return python
    print(f"making an environment with {' '.join(requirements)} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _call([sys.executable, "-m", "venv", str(folder)])
    _call([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    complete.write_text("\n".join(requirements), encoding="utf-8")
    return python


def environ_of(environment: str) -> dict[str, str]:
    """Environment variables: without those that change how Python runs; only ours sees the checkout's ``src``."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPDL_"))}
    if environment == CHECKOUT:
        environ["PYTHONPATH"] = str(REPOSITORY / "src")
    return environ


def _call(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(
            f"`{' '.join(command)}` failed with exit code {done.returncode}; leave the peer out with --peers, or see to"
            f" this first:\n{(done.stderr or done.stdout)[-2000:]}"
        )
