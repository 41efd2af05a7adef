"""Names of packages: imported on first use, and the error for one that a package does not have."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

__all__ = ["lazy_names", "unknown_name"]

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


def lazy_names(
    namespace: dict[str, Any], module_of: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module that imports its public names on first use (PEP 562).

    .. code-block:: python

        if not TYPE_CHECKING:  # or a type checker would take any name for one of the module
            __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)

    Args:
        namespace: The module's ``globals()``, with ``__all__``. A name is stored there when it has been imported.
        module_of: For each name, the module that defines it, absolute or relative.
    """
    package = namespace["__spec__"].parent

    def get(name: str) -> Any:
        if name not in module_of:
            raise unknown_name(namespace["__name__"], name, namespace["__all__"])
        from importlib import import_module

        value = getattr(import_module(module_of[name], package), name)
        namespace[name] = value
        return value

    return get, lambda: sorted({*namespace, *namespace["__all__"]})


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
