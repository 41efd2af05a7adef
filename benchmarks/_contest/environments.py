"""Interpreters for peers, made once with ``venv`` and ``pip`` below ``.cache/bench`` of the repository.

The reference has the same import name as this package, so the two can never share an interpreter. Every other peer also
has its own process, so that the imports of one do not slow down the garbage collector of another.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CHECKOUT",
    "MEDIA_LIBRARIES",
    "REFERENCE",
    "REPOSITORY",
    "Environment",
    "SetupError",
    "environ_of",
    "interpreter_of",
    "is_made",
]

REPOSITORY = Path(__file__).resolve().parents[2]


class SetupError(RuntimeError):
    """An environment could not be made; the message ends with the output of the tool."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, known by its name; without requirements and tree it is this interpreter.

    Attributes:
        requirements: The requirements that pip installs.
        variables: Environment variables for pip besides those of this process, for packages that it compiles.
        tree: Another checkout of SPDL, built, with its own environment in ``.venv``, which is used.
        python: An interpreter that runs this checkout as it is, built for it.
        is_optional: Whether it is so large that it is made only for peers that are named in ``--peers``.
    """

    name: str
    requirements: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    tree: Path | None = None
    python: str | None = None
    is_optional: bool = False


#: This interpreter with the checkout's ``src``, or with the package that is installed in its place, such as a wheel.
CHECKOUT = Environment("checkout")
#: The released package that SPDL is compared with.
REFERENCE = Environment("reference", ("numpy", "spdl==0.8.0"))
#: Other libraries that decode video and audio. A torch of this version without CUDA is enough.
MEDIA_LIBRARIES = Environment(
    "media-peers",
    (
        "numpy",
        "av==18.1.0",
        "eva-decord==0.6.1",
        "soundfile>=0.13",
        "soxr>=0.5",
        "torch==2.13.0",
        "torchaudio==2.11.0",
        "torchcodec==0.13.0",
    ),
)


def interpreter_of(environment: Environment) -> str:
    """The Python of an environment, which is made if necessary.

    Raises:
        SetupError: ``venv`` or ``pip`` failed, or the tree has no environment.
    """
    if environment.tree is not None:
        path = environment.tree / ".venv" / "bin" / "python"
        if not path.exists():
            raise SetupError(f"there is no {path}; build that checkout first (make setup)")
        return str(path)
    if environment.python is not None:
        return environment.python
    if not environment.requirements:
        return sys.executable
    folder = _folder(environment)
    python = str(folder / "bin" / "python")
    if is_made(environment):
        return python
    print(f"making an environment with {' '.join(environment.requirements)} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _call([sys.executable, "-m", "venv", str(folder)])
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *environment.requirements]
    _call(pip, dict(environment.variables))
    (folder / _COMPLETE).write_text("\n".join(environment.requirements), encoding="utf-8")
    return python


def is_made(environment: Environment) -> bool:
    """Whether the environment exists, is complete, and has these requirements."""
    complete = _folder(environment) / _COMPLETE
    return complete.exists() and tuple(complete.read_text(encoding="utf-8").split("\n")) == environment.requirements


def environ_of(environment: Environment) -> dict[str, str]:
    """This process's variables without those that change how Python or SPDL run; only checkouts see their ``src``."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPDL_"))}
    is_source = environment == CHECKOUT and not _is_installed_apart()
    if environment.tree is not None or environment.python is not None or is_source:
        environ["PYTHONPATH"] = str((environment.tree or REPOSITORY) / "src")
    return environ


def _is_installed_apart() -> bool:
    """Whether this interpreter has another SPDL than the checkout's ``src``, which need not be built for it then."""
    found = importlib.util.find_spec("spdl")
    return found is not None and not Path(found.origin or "").is_relative_to(REPOSITORY / "src")


# Written last: it shows that the environment is complete, and its requirements.
_COMPLETE = "complete.txt"


def _folder(environment: Environment) -> Path:
    return REPOSITORY / ".cache" / "bench" / f"{environment.name}-{sys.implementation.cache_tag}"


def _call(command: list[str], variables: Mapping[str, str] | None = None) -> None:
    environ = {**os.environ, **(variables or {})}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environ, check=False)
    if done.returncode != 0:
        raise SetupError(
            f"`{' '.join(command)}` failed with exit code {done.returncode}; leave the peer out with --peers, or fix"
            f" this first:\n{(done.stderr or done.stdout)[-2000:]}"
        )
