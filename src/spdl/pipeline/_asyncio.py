"""``asyncio``, imported when something of it is first used: most pipelines need none, and it takes 30 ms.

Modules of this package write ``import spdl.pipeline._asyncio as asyncio`` and then use it as the module itself. A name
is looked up once, and is a global of this module from then on, so it costs no more than with the module itself.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import *  # noqa: F403 - all of it
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # what the import system asks of modules
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import asyncio

        value = globals()[name] = getattr(asyncio, name)
        return value
