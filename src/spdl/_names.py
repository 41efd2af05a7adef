"""``unknown_name``: the error for a name that a package does not have, with the name that was probably meant."""

from collections.abc import Iterable
from typing import Final

__all__ = ["unknown_name"]

#: Where people look in vain for what another package has, and the words of other libraries for what we have.
_ELSEWHERE: Final = {
    "CacheDataLoader": "spdl.dataloader.CacheDataLoader",
    "DataLoader": "spdl.dataloader.DataLoader",
    "DistributedSampler": "spdl.source.DistributedKeyedSampler",
    "ImageFolder": "spdl.source.ImageFolder",
    "IterableDataset": "spdl.source",
    "Loader": "spdl.dataloader.DataLoader",
    "PipelineBuilder": "spdl.pipeline.PipelineBuilder",
    "VideoDecoder": "spdl.io.load_video",
    "VideoReader": "spdl.io.load_video",
    "WebDataset": "spdl.source.ShardStream",
    "decode_image": "spdl.io.load_image",
    "decode_jpeg": "spdl.io.load_image",
    "imread": "spdl.io.load_image",
    "load_audio": "spdl.io.load_audio",
    "load_image": "spdl.io.load_image",
    "load_image_batch": "spdl.io.load_image_batch",
    "load_images": "spdl.io.load_image_batch",
    "load_video": "spdl.io.load_video",
    "map": "spdl.pipeline.PipelineBuilder.pipe",
    "prefetch_to_device": "spdl.dataloader.prefetch_to_device",
    "read_audio": "spdl.io.load_audio",
    "read_image": "spdl.io.load_image",
    "read_video": "spdl.io.load_video",
    "run_in_subprocess": "spdl.pipeline.run_pipeline_in_subprocess",
    "run_pipeline": "spdl.pipeline.PipelineBuilder.build",
    "to_device": "spdl.dataloader.prefetch_to_device",
}


def unknown_name(module: str, name: str, public: Iterable[str]) -> AttributeError:
    """Return the error for ``module.name``.

    ``hasattr`` and the tools that look for names with underscores pay nothing for it: suggestions are only made for
    names that people type.
    """
    text = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text, name=name)
    if (place := _ELSEWHERE.get(name)) is not None:
        return AttributeError(f"{text}; see {place}", name=name)
    from difflib import get_close_matches

    lowered = {each.lower(): each for each in sorted(public)}
    found = [lowered[each] for each in get_close_matches(name.lower(), lowered, n=2, cutoff=0.75)]
    return AttributeError(f"{text}; did you mean {' or '.join(found)}?" if found else text, name=name)
