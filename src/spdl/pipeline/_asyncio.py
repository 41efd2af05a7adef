"""A stand-in for ``asyncio`` that imports it on first use: most pipelines do not need it, and the import takes 30 ms.

Modules of this package write ``import spdl.pipeline._asyncio as asyncio`` and then use it like the real module. Each
name is looked up once and then kept as a global of this module, so later uses cost no more than with the real module.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import *  # noqa: F403 - all of it
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # looked up by the import system
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import asyncio

        value = globals()[name] = getattr(asyncio, name)
        return value
