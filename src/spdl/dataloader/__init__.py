"""Loaders in familiar shapes, on top of the pipeline.

``DataLoader`` and ``CacheDataLoader`` have no dependencies; ``get_pytorch_dataloader`` needs torch. Names are imported
on first use, because worker processes import this package too and should import only what they need.
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

#: The module of each name.
_MODULE_OF = {
    "CacheDataLoader": "._cache",
    "DataLoader": "._dataloader",
    "DeviceLoader": "._device",
    "PipelineBuilder": "spdl.pipeline",
    "PyTorchDataLoader": "._pytorch",
    "get_pytorch_dataloader": "._pytorch",
    "prefetch_to_device": "._device",
}

if not TYPE_CHECKING:  # or a type checker would take any name for one of this module
    __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)
