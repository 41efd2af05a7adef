"""Scalable and performant data loading.

``spdl.pipeline`` is the engine, ``spdl.io`` reads media, ``spdl.source`` has iterables and samplers, and
``spdl.dataloader`` has loaders with familiar interfaces. Importing this package imports none of them; the first access,
such as ``spdl.io``, does.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import dataloader as dataloader
    from . import debug as debug
    from . import io as io
    from . import metrics as metrics
    from . import pipeline as pipeline
    from . import ray as ray
    from . import remote as remote
    from . import resume as resume
    from . import source as source

__all__ = ["__version__"]

#: Packages that are accessible after ``import spdl``. Not in ``__all__``, because ``from spdl import *`` would import
#: all of them.
_PACKAGES = ("dataloader", "debug", "io", "metrics", "pipeline", "ray", "remote", "resume", "source")

__version__: str

# The reference implementation (the distributions spdl, spdl-core and spdl-io) installs its files into the same folder
# and overwrites ours. These files exist only there.
for _file in ("_internal", os.path.join("io", "_internal")):
    if os.path.exists(os.path.join(__path__[0], _file, "__init__.py")):
        raise ImportError(
            f"cannot import spdl from {__path__[0]}: spdl-native and spdl-core or spdl-io were both installed there,"
            " and overwrote files of each other. Run `pip uninstall -y spdl spdl-core spdl-io spdl-native`, then"
            " install the one that you want",
            name="spdl",
        )


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a package, or find the version, on first use: both cost more than importing this package."""
        if name != "__version__":
            if name not in _PACKAGES:
                from spdl._names import unknown_name

                raise unknown_name(__name__, name, _PACKAGES)
            from importlib import import_module

            return import_module(f"spdl.{name}")
        from importlib import metadata

        try:
            version = metadata.version("spdl-native")
        except metadata.PackageNotFoundError:  # run from a source tree that was never installed
            version = "unknown"
        globals()["__version__"] = version
        return version


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
