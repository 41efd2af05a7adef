"""Interpreters for the peers.

The reference has the import name of what is measured, so it can never share an interpreter with it: it gets a virtual
environment of its own below ``.cache/bench`` of the repository, made once with ``venv`` and ``pip``. Every other peer
runs in a fresh process too, so that what one imports is no burden on another's garbage collector.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from ._peers import Peer

__all__ = ["REPOSITORY", "PeerSetupError", "clean_environ", "install_torch", "interpreter_of"]

REPOSITORY = Path(__file__).resolve().parents[2]

_REQUIREMENTS = {"reference": ["spdl==0.8.0"], "torch": ["numpy", "torch>=2.2", "torchdata>=0.10"]}


class PeerSetupError(RuntimeError):
    """An environment could not be made; the message ends with what the tool said."""


def interpreter_of(peer: Peer) -> str:
    """The Python that runs the peer. Makes the reference's environment on the first call.

    Raises:
        PeerSetupError: ``venv`` or ``pip`` failed.
    """
    if peer.lives_in == "reference":
        return _made("reference")
    if peer.lives_in == "torch" and (find_spec("torch") is None or find_spec("torchdata") is None):
        folder = _folder("torch")
        if (folder / _COMPLETE).exists():
            return str(folder / "bin" / "python")
    return sys.executable


def install_torch() -> None:
    """Make the environment of the torch peers, unless this interpreter or an earlier call has them (some gigabytes)."""
    if find_spec("torch") is None or find_spec("torchdata") is None:
        _made("torch")


def clean_environ(peer: Peer) -> dict[str, str]:
    """Environment variables for the peer: this process's without those that change how Python or SPDL run.

    Only the checkout's peers see its ``src``.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPDL_"))}
    if peer.lives_in == "checkout":
        environ["PYTHONPATH"] = str(REPOSITORY / "src")
    return environ


# Written last: says that the environment is whole, and of which requirements.
_COMPLETE = "complete.txt"


def _folder(name: str) -> Path:
    return REPOSITORY / ".cache" / "bench" / f"{name}-{sys.implementation.cache_tag}"


def _made(name: str) -> str:
    folder = _folder(name)
    requirements = _REQUIREMENTS[name]
    complete = folder / _COMPLETE
    python = str(folder / "bin" / "python")
    if complete.exists() and complete.read_text(encoding="utf-8").split() == requirements:
        return python
    print(f"making an environment with {' '.join(requirements)} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _call([sys.executable, "-m", "venv", str(folder)], f"make a virtual environment for {name}")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _call([*pip, *requirements], f"install {' '.join(requirements)}")
    complete.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    return python


def _call(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerSetupError(
            f"cannot {what}: exit code {done.returncode}; leave the peer out with --peers, or see to this first:\n"
            f"{(done.stderr or done.stdout)[-2000:]}"
        )
