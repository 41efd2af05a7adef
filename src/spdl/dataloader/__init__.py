"""Loaders with familiar interfaces, on top of ``spdl.pipeline``.

``DataLoader`` and ``CacheDataLoader`` have no dependencies; ``get_pytorch_dataloader`` needs torch. Names are imported
on first use, because worker processes also import this package and should import only what they need.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(),
    {
        "._cache": "CacheDataLoader",
        "._dataloader": "DataLoader",
        "._device": "DeviceLoader prefetch_to_device",
        "._pytorch": "PyTorchDataLoader get_pytorch_dataloader",
        "spdl.pipeline": "PipelineBuilder",
    },
)
