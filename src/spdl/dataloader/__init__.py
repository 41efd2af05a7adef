"""Loaders with familiar interfaces, on top of ``spdl.pipeline``.

``DataLoader`` and ``CacheDataLoader`` have no dependencies; ``get_pytorch_dataloader`` needs torch. Names are imported
on first use, because worker processes also import this package and should import only what they need.
"""

from typing import TYPE_CHECKING

from spdl._names import lazy_names

if TYPE_CHECKING:
    from spdl.pipeline import PipelineBuilder as PipelineBuilder

    from ._cache import CacheDataLoader as CacheDataLoader
    from ._dataloader import DataLoader as DataLoader
    from ._device import DeviceLoader as DeviceLoader
    from ._device import prefetch_to_device as prefetch_to_device
    from ._pytorch import PyTorchDataLoader as PyTorchDataLoader
    from ._pytorch import get_pytorch_dataloader as get_pytorch_dataloader

__all__ = [
    "CacheDataLoader",
    "DataLoader",
    "DeviceLoader",
    "PipelineBuilder",
    "PyTorchDataLoader",
    "get_pytorch_dataloader",
    "prefetch_to_device",
]

#: The module that defines each name.
_MODULE_OF = {
    "CacheDataLoader": "._cache",
    "DataLoader": "._dataloader",
    "DeviceLoader": "._device",
    "PipelineBuilder": "spdl.pipeline",
    "PyTorchDataLoader": "._pytorch",
    "get_pytorch_dataloader": "._pytorch",
    "prefetch_to_device": "._device",
}

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)
