"""Lazily imported names of packages, and the error for a name that a package does not have."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: The packages to search for public names, in this order.
_PACKAGES: Final = ("pipeline", "io", "source", "dataloader", "resume", "metrics", "remote", "ray")
#: Names in other libraries for things that we have, and names that mean something else in other packages.
_ELSEWHERE: Final = {
    "AudioDecoder": "spdl.io.load_audio",
    "BatchSampler": "spdl.pipeline.PipelineBuilder.aggregate",
    "Compose": "spdl.io.ImageTransform",
    "DataLoader": "spdl.dataloader.DataLoader",
    "Dataset": "spdl.source",
    "DistributedSampler": "spdl.source.DistributedKeyedSampler",
    "ImageDecoder": "spdl.io.load_image",
    "IterableDataset": "spdl.source",
    "Loader": "spdl.dataloader.DataLoader",
    "RandomSampler": "spdl.source.DistributedKeyedSampler",
    "StreamingDataLoader": "spdl.dataloader.DataLoader",
    "StreamingDataset": "spdl.source.ShardStream",
    "VideoDecoder": "spdl.io.load_video",
    "VideoReader": "spdl.io.load_video",
    "WebDataset": "spdl.source.ShardStream",
    "batch": "spdl.pipeline.PipelineBuilder.aggregate",
    "dataset": "spdl.source",
    "datasets": "spdl.source",
    "decode_audio": "spdl.io.load_audio",
    "decode_image": "spdl.io.load_image",
    "decode_jpeg": "spdl.io.load_image",
    "decode_video": "spdl.io.load_video",
    "imread": "spdl.io.load_image",
    "load_images": "spdl.io.load_image_batch",
    "load_jpeg": "spdl.io.load_image",
    "map": "spdl.pipeline.PipelineBuilder.pipe",
    "read_audio": "spdl.io.load_audio",
    "read_image": "spdl.io.load_image",
    "read_video": "spdl.io.load_video",
    "run_in_subprocess": "spdl.pipeline.run_pipeline_in_subprocess",
    "run_pipeline": "spdl.pipeline.PipelineBuilder.build",
    "shuffle": "spdl.source",
    "to_device": "spdl.dataloader.prefetch_to_device",
    "transforms": "spdl.io.ImageTransform",
    "unbatch": "spdl.pipeline.PipelineBuilder.disaggregate",
}


def lazy_names(
    namespace: dict[str, Any], table: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a module whose names are imported on first use (PEP 562).

    .. code-block:: python

        __all__, __getattr__, __dir__ = lazy_names(globals(), {"._files": "load save", "._skip": "skip"})

    Type checkers and editors read the stub beside the module, which ``scripts/stubs`` writes from the same table.

    Args:
        namespace: The module's ``globals()``. Imported names are stored there.
        table: For each module, absolute or relative, the public names that it defines, separated by spaces. The names
            of ``"."`` are modules themselves, and not in ``__all__``: ``import *`` would import all of them.
    """
    package = namespace["__spec__"].parent
    module_of = {name: module for module, names in table.items() for name in names.split()}
    public = sorted(name for name, module in module_of.items() if module != ".")

    def get(name: str) -> Any:
        if name not in module_of:
            raise unknown_name(namespace["__name__"], name, public)
        from importlib import import_module

        if module_of[name] == ".":
            return import_module(f".{name}", package)
        value = getattr(import_module(module_of[name], package), name)
        namespace[name] = value
        return value

    return public, get, lambda: sorted({*namespace, *module_of})


def unknown_name(module: str, name: str, public: Iterable[str]) -> AttributeError:
    """Return the error for ``module.name``.

    Suggestions are made only for names that people type, so ``hasattr`` and tools that look up names with underscores
    stay fast.
    """
    text = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text, name=name)
    if (place := _ELSEWHERE.get(name) or _place_of(name, module)) is not None:
        return AttributeError(f"{text}; see {place}", name=name)
    from difflib import get_close_matches

    lowered = {each.lower(): each for each in sorted(public)}
    found = [lowered[each] for each in get_close_matches(name.lower(), lowered, n=2, cutoff=0.75)]
    return AttributeError(f"{text}; did you mean {' or '.join(found)}?" if found else text, name=name)


def _place_of(name: str, module: str) -> str | None:
    """Where another package has this public name, ignoring case. Imports the packages."""
    from importlib import import_module

    for package in _PACKAGES:
        place = f"spdl.{package}"
        if place == module:  # it may be partly imported, and its names are compared anyway
            continue
        try:
            names = getattr(import_module(place), "__all__", ())  # missing if an import has not finished
        except ImportError:  # of NumPy, which spdl.io needs
            continue
        if (found := {each.lower(): each for each in names}.get(name.lower())) is not None:
            return f"{place}.{found}"
    return None


def renamed(**names: str) -> Callable[[F], F]:
    """Decorate a function that also takes arguments by their former names, with a ``DeprecationWarning``.

    Args:
        **names: The former name and the name of each.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for former in names.keys() & kwargs:
                name, value = names[former], kwargs.pop(former)
                if name in kwargs:
                    raise TypeError(f"{function.__name__}() got both {name} and {former}, its former name")
                warnings.warn(
                    f"{former} of {function.__name__}() is called {name} now", DeprecationWarning, stacklevel=2
                )
                kwargs[name] = value
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
