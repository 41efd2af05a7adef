# Written by scripts/stubs from the module's table.

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
